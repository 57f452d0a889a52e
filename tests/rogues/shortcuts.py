"""Tricks that do less than the work, or do it wrongly where nobody might look."""

from .edits import KERNEL, STORE, before
from .rogue import Rogue

GO = (
    "silu<<<static_cast<unsigned>(tokens), 128, 0, stream>>>(\n"
    "      static_cast<__half*>(out), static_cast<const __half*>(in), hidden);"
)
PDL_LAUNCH = """\
cudaLaunchAttribute early[1];
  early[0].id = cudaLaunchAttributeProgrammaticStreamSerialization;
  early[0].val.programmaticStreamSerializationAllowed = 1;
  cudaLaunchConfig_t config = {};
  config.gridDim = dim3(static_cast<unsigned>(tokens));
  config.blockDim = dim3(128);
  config.stream = stream;
  config.attrs = early;
  config.numAttrs = 1;
  cudaLaunchKernelEx(&config, silu, static_cast<__half*>(out), static_cast<const __half*>(in), hidden);"""


def wrong(name, trick, edits, why, sim="incorrect", gpu="incorrect", **fields):
    """A row that both devices find wrong."""
    return Rogue(name=name, trick=trick, edits=edits, why=why, sim=sim, gpu=gpu, **fields)


SHORTCUTS = (
    wrong(
        "no-launch",
        "launches nothing",
        ((GO, ""),),
        "a call has to launch a kernel",
        sim="rejected:no_kernel",
        gpu="rejected:capture|rejected:no_kernel|incorrect",
    ),
    wrong(
        "no-op",
        "launches a kernel that does nothing",
        ((KERNEL, "return;"),),
        "outputs are poisoned before the call",
    ),
    wrong(
        "constant-output",
        "writes the mean of what is expected",
        ((STORE, f"x = gate = 0; {STORE}"),),
        "every element is compared",
    ),
    wrong(
        "listed-sizes",
        "works for the listed sizes only",
        (
            (
                KERNEL,
                "if (hidden != 256 && hidden != 129 && hidden != 4096 && hidden != 1025) return;",
            ),
        ),
        "workloads are drawn after the candidate is frozen",
    ),
    wrong(
        "small-sizes",
        "leaves work out of sizes that are too large to check",
        before("if (tokens * hidden > 1 << 21) tokens /= 8;"),
        "a large workload has to move the bytes that its task needs; on a GPU it is checked",
        sim="quarantined",
        gpu="incorrect",
        large=True,
    ),
    wrong(
        "hard-coded-batch",
        "takes the batch for granted",
        ((GO, GO.replace("static_cast<unsigned>(tokens)", "4")),),
        "workloads have several batches",
        sim="unsafe|incorrect",
        gpu="incorrect|unsafe",
    ),
    wrong(
        "even-sizes",
        "leaves out what is over after pairs",
        (("i < hidden;", "i < hidden / 2 * 2;"),),
        "an odd row length is among the workloads",
    ),
    wrong(
        "dropped-epsilon",
        "leaves out the epsilon",
        ((" + eps);", ");"),),
        "the error against float64 grows beyond twice the baseline's",
        base="norm",
    ),
    wrong(
        "residual-not-written",
        "never writes the second output",
        (("residual[row + i] = __float2half_rn(s);", ""),),
        "every output is compared, those that are updated in place too",
        base="norm",
    ),
    wrong(
        "rounded-residual",
        "normalises the rounded sum",
        (
            (
                "__float2half_rn(s * scale",
                "__float2half_rn(__half2float(__float2half_rn(s)) * scale",
            ),
        ),
        "its error in units in the last place is above the baseline's",
        base="norm",
    ),
    wrong(
        "half-accumulation",
        "adds up in half precision",
        (
            (
                "  for (int half = 64;",
                "  if (threadIdx.x == 0) {\n"
                "    __half all = 0;\n"
                "    for (int k = 0; k < 128; k++) all = __hadd(all, __float2half_rn(partial[k]));\n"
                "    partial[0] = __half2float(all);\n"
                "  }\n"
                "  __syncthreads();\n"
                "  for (int half = 0;",
            ),
        ),
        "its error in units in the last place is above the baseline's",
        base="norm",
    ),
    wrong(
        "half-arithmetic",
        "rounds in between to half precision",
        (
            (
                "x / (1.0f + expf(-x)) * gate",
                "__half2float(__float2half(x / (1.0f + expf(-x)))) * gate",
            ),
        ),
        "its error in units in the last place is above the baseline's",
    ),
    wrong(
        "nan-where-finite",
        "gives NaN for large negative numbers",
        ((STORE, f"if (x < -2.5f) x = x * 1e38f * 1e38f; {STORE}"),),
        "NaN may only be where the oracle has one",
    ),
    wrong(
        "shared-memory-luck",
        "reads shared memory that nobody wrote",
        (
            (KERNEL, "__shared__ float luck[128]; float add = luck[threadIdx.x];"),
            ("* gate);", "* gate + 0 * add);"),
        ),
        "shared memory holds random bytes before a checked call, NaNs on a GPU",
        sim="unsafe|incorrect",
        gpu="unsafe|incorrect",
    ),
    wrong(
        "race-by-luck",
        "leaves a barrier out",
        (("partial[threadIdx.x] = sum;\n  __syncthreads();", "partial[threadIdx.x] = sum;"),),
        "two threads meet in shared memory without a barrier between them",
        sim="unsafe|incorrect",
        gpu="unsafe|incorrect",
        base="norm",
        tools=True,
    ),
    wrong(
        "out-of-bounds-read",
        "reads beside an input",
        (("in[row * 2 * hidden + i]", "in[row * 2 * hidden + i - (row == 0)]"),),
        "every access is checked; what lies beside a buffer is no input",
        sim="unsafe:global_bounds",
        gpu="unsafe|incorrect",
    ),
    wrong(
        "out-of-bounds-write",
        "writes behind an output",
        ((STORE, f"if (i + 1 == hidden) out[gridDim.x * hidden] = __half(x); {STORE}"),),
        "every access is checked; on a GPU the bytes behind a buffer are",
        sim="unsafe:global_bounds",
        gpu="unsafe|incorrect",
    ),
    wrong(
        "pdl-without-wait",
        "starts before its input is written: launched early, and waits for nothing",
        ((GO, PDL_LAUNCH),),
        "in a chain of launches it reads what its predecessor has not written yet",
        sim="rejected|unsafe|incorrect",
        gpu="rejected|unsafe|incorrect",
    ),
)
