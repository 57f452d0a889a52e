"""Small job directories for tests: a gated activation, right or wrong in chosen ways."""

from pathlib import Path

from astra_kernels.jobs.spec import (
    ArgumentSpec,
    InputSpec,
    JobSpec,
    Limits,
    ProgramSpec,
    TensorSpec,
    WorkloadSpec,
    write_spec,
)

REFERENCE = """\
import numpy as np


def run(input):
    x, gate = np.split(input.astype(np.float32), 2, axis=1)
    return (x / (1 + np.exp(-x)) * gate).astype(input.dtype)


def reference_fp64(input):
    x, gate = np.split(input.astype(np.float64), 2, axis=1)
    return x / (1 + np.exp(-x)) * gate
"""

SILU = """\
#include <cuda_fp16.h>
#include <cstdint>
#include <cstdlib>

__global__ void silu(__half* __restrict__ out, const __half* __restrict__ in, int64_t hidden) {
  int64_t row = blockIdx.x;
  for (int64_t i = threadIdx.x; i < hidden; i += blockDim.x) {
    float x = __half2float(in[row * 2 * hidden + i]);
    float gate = __half2float(in[row * 2 * hidden + hidden + i]);
    out[row * hidden + i] = __float2half_rn(x / (1.0f + expf(-x)) * gate);
  }
}

extern "C" int silu_and_mul(void* out, void* in, int64_t tokens, int64_t hidden, cudaStream_t stream) {
  // before the launch
  silu<<<static_cast<unsigned>(tokens), 128, 0, stream>>>(
      static_cast<__half*>(out), static_cast<const __half*>(in), hidden);
  return cudaGetLastError();
}
"""

FAST = SILU.replace("expf(", "__expf(")


def workload(uuid, tokens, hidden, **changes):
    fields = {
        "uuid": uuid,
        "axes": {"tokens": tokens, "hidden": hidden, "two_hidden": 2 * hidden},
        "seed": 7,
        "inputs": {"input": InputSpec(type="random")},
        "timed": True,
        "minimum_bytes": 6 * tokens * hidden,
    }
    return WorkloadSpec(**{**fields, **changes})


WORKLOADS = (workload("even", 4, 256), workload("odd", 3, 129, timed=False))


def silu_spec(
    device="sim:h200", workloads=WORKLOADS, *, alone=False, entry="silu_and_mul", **changes
):
    def program(directory):
        return ProgramSpec(directory=directory, sources=("silu.cu",), entry_symbol=entry, flags=())

    fields = {
        "device": device,
        "baseline": program("baseline"),
        "candidate": None if alone else program("candidate"),
        "arguments": (
            ArgumentSpec(name="out", kind="output", ctype="pointer"),
            ArgumentSpec(name="input", kind="input", ctype="pointer"),
            ArgumentSpec(name="tokens", kind="axis", ctype="int64"),
            ArgumentSpec(name="hidden", kind="axis", ctype="int64"),
            ArgumentSpec(name="stream", kind="stream", ctype="stream"),
        ),
        "inputs": (TensorSpec(name="input", dtype="float16", shape=("tokens", "two_hidden")),),
        "outputs": (TensorSpec(name="out", dtype="float16", shape=("tokens", "hidden")),),
        "workloads": tuple(workloads),
        "limits": Limits(correctness_s=60),
    }
    return JobSpec(**{**fields, **changes})


def stage(job_dir: Path, candidate=FAST, baseline=SILU, *, reference=REFERENCE, **changes):
    """Writes a job directory and returns it; `changes` are fields of the specification."""
    for name, text in (("baseline", baseline), ("candidate", candidate)):
        if text is not None:
            (job_dir / name).mkdir(parents=True, exist_ok=True)
            (job_dir / name / "silu.cu").write_text(text)
    (job_dir / "reference.py").write_text(reference)
    write_spec(job_dir, silu_spec(alone=candidate is None, **changes))
    return job_dir
