"""Small programs for tests that read the rewritten text."""

from astra_kernels.agents.rewrites import Applied, ParameterPoint, Program, Refused, Rewrite


def device(body: str, *, head: str = "") -> Program:
    """A program whose only kernel has this body; `a`, `b`, `x` are floats, `n` an int."""
    return Program(
        {
            "k.cu": f"""{head}
__global__ void kernel(float* out, const float* in, float a, float b, float x, int n) {{
  {body}
}}
extern "C" int run(float* out, const float* in, int n, cudaStream_t stream) {{
  kernel<<<n, 256, 0, stream>>>(out, in, 1.f, 2.f, 3.f, n);
  return cudaGetLastError();
}}
"""
        },
        "k.cu::run",
    )


def host(kernel: str, launch: str, *, head: str = "") -> Program:
    """A program with this kernel and this launch code."""
    return Program(
        {
            "k.cu": f"""{head}
{kernel}
extern "C" int run(float* out, const float* in, int rows, int n, cudaStream_t stream) {{
  {launch}
  return cudaGetLastError();
}}
"""
        },
        "k.cu::run",
    )


def text(program: Program, rewrite: Rewrite, **values: int | str) -> str:
    """The rewritten file, or the reason of the refusal."""
    result = rewrite.apply(program, ParameterPoint.of(**values))
    return result.sources["k.cu"] if isinstance(result, Applied) else f"refused: {result.reason}"


def refusal(program: Program, rewrite: Rewrite, **values: int | str) -> Refused:
    """The refusal, which must be one."""
    result = rewrite.apply(program, ParameterPoint.of(**values))
    assert isinstance(result, Refused), result
    return result
