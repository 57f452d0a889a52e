"""A normalisation that nothing in the package was written for, and jobs of it on the simulated device."""

import pytest

from astra_kernels.evaluation.stage import JobRequest, stage_job
from astra_kernels.jobs.run_job import run_job
from astra_kernels.records.candidate import Candidate
from astra_kernels.records.definition import Definition
from astra_kernels.records.problem import Problem
from astra_kernels.records.solution import SolutionSpec
from astra_kernels.records.workload import RandomInput, ScalarInput, Workload
from tests.jobs.conftest import toolchain

__all__ = ["toolchain"]

KERNEL = r"""
#include <cuda_runtime.h>

__global__ void norm_rows(float* out, const float* in, const float* weight, float eps, int columns) {
  const float* row = in + (long long)blockIdx.x * columns;
  float sum = 0.0f;
  for (int i = threadIdx.x; i < columns; i += 32) sum += row[i] * row[i];
  for (int step = 16; step > 0; step /= 2) sum += __shfl_xor_sync(~0u, sum, step);
  float scale = rsqrtf(sum / columns + eps);
  for (int i = threadIdx.x; i < columns; i += 32) {
    out[(long long)blockIdx.x * columns + i] = row[i] * scale * weight[i];
  }
}

extern "C" int normalise(float* out, const float* in, const float* weight, float eps, int rows, int columns,
                         cudaStream_t stream) {
  // before the launch
  norm_rows<<<rows, 32, 0, stream>>>(out, in, weight, eps, columns);
  return cudaGetLastError();
}
"""

REFERENCE = """
import numpy as np


def run(x, weight, eps):
    return reference_fp64(x, weight, eps).astype(np.float32)


def reference_fp64(x, weight, eps):
    with np.errstate(all="ignore"):
        wide = x.astype(np.float64)
        return wide / np.sqrt((wide**2).mean(axis=1, keepdims=True) + eps) * weight.astype(np.float64)
"""


def workload(rows, columns):
    inputs = {"x": RandomInput(), "weight": RandomInput(), "eps": ScalarInput(value=1e-12)}
    return Workload(
        uuid=f"{rows}x{columns}",
        axes={"rows": rows, "columns": columns},
        inputs=inputs,
        timed=False,
    )


def norm_problem(reference=REFERENCE, kernel=KERNEL, domains=True):
    def axis(most):
        return {"type": "var", **({"domain": {"min": 1, "max": most}} if domains else {})}

    return Problem(
        definition=Definition(
            name="norm",
            axes={"rows": axis(4096), "columns": axis(16384)},
            inputs={
                "x": {"shape": ("rows", "columns"), "dtype": "float32"},
                "weight": {"shape": ("columns",), "dtype": "float32"},
                "eps": {"shape": None, "dtype": "float32"},
            },
            outputs={"y": {"shape": ("rows", "columns"), "dtype": "float32"}},
        ),
        workloads=(workload(8, 512), workload(4, 1024)),
        reference=reference,
        spec=SolutionSpec(
            entry_point="norm.cu::normalise",
            binding="c",
            arguments=(
                "y", "x", "weight", "eps",
                {"name": "rows", "ctype": "int32"}, {"name": "columns", "ctype": "int32"}, "stream",
            ),
        ),
        baseline=Candidate(sources={"norm.cu": kernel}),
    )  # fmt: skip


def edited(old, new, text=KERNEL):
    assert old in text
    return text.replace(old, new)


@pytest.fixture
def judge(tmp_path, toolchain, build_cache):
    """Stages a candidate of a problem with hidden workloads from a seed, and gives the outcome in full."""

    def judged(kernel, problem=None, *, hidden_seed=1, **changes):
        problem = problem or norm_problem()
        request = JobRequest(
            device="sim:h200",
            candidate=Candidate(sources={"norm.cu": kernel}),
            workloads=problem.workloads,
            seed=3,
            hidden_seed=hidden_seed,
            **changes,
        )
        directory = tmp_path / f"job-{len(list(tmp_path.iterdir()))}"
        stage_job(problem, tmp_path, request, directory)
        return run_job(directory, toolchain=toolchain, cache_dir=build_cache)

    return judged
