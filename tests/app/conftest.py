import json
import os
import subprocess
import sys

import pytest

KERNEL = r"""
#include <cuda_runtime.h>

// One block per row, one element at a time: room for every rewrite.
__global__ void sigmoid_rows(float* out, const float* in, float scale, int columns) {
  const float* row = in + (long long)blockIdx.x * columns;
  float* out_row = out + (long long)blockIdx.x * columns;
  for (int i = threadIdx.x; i < columns; i += blockDim.x) {
    out_row[i] = scale / (1.0f + expf(-row[i]));
  }
}

extern "C" int sigmoid(float* out, const float* in, float scale, int rows, int columns, cudaStream_t stream) {
  sigmoid_rows<<<rows, 128, 0, stream>>>(out, in, scale, columns);
  return cudaGetLastError();
}
"""

REFERENCE = """
import numpy as np


def run(x, scale):
    return (scale / (1.0 + np.exp(-x.astype(np.float64)))).astype(np.float32)


def reference_fp64(x, scale):
    return scale / (1.0 + np.exp(-x.astype(np.float64)))
"""


def workload(rows, columns):
    return {
        "uuid": f"{rows}x{columns}",
        "axes": {"rows": rows, "columns": columns},
        "inputs": {"x": {"type": "random"}, "scale": {"type": "scalar", "value": 2.0}},
    }


FILES = {
    "definition.json": json.dumps(
        {
            "name": "sigmoid",
            "axes": {
                "rows": {"type": "var", "domain": {"min": 1, "max": 4096}},
                "columns": {"type": "var", "domain": {"min": 1, "max": 65536}},
            },
            "inputs": {
                "x": {"shape": ["rows", "columns"], "dtype": "float32"},
                "scale": {"shape": None, "dtype": "float32"},
            },
            "outputs": {"y": {"shape": ["rows", "columns"], "dtype": "float32"}},
        }
    ),
    "workload.jsonl": "\n".join(json.dumps(workload(*s)) for s in ((8, 32768), (3, 1000))),
    "reference.py": REFERENCE,
    "baseline/sigmoid.cu": KERNEL,
    "baseline/solution.json": json.dumps(
        {
            "name": "sigmoid_baseline",
            "definition": "sigmoid",
            "spec": {
                "language": "cuda",
                "binding": "c",
                "entry_point": "sigmoid.cu::sigmoid",
                "arguments": [
                    "y",
                    "x",
                    "scale",
                    {"name": "rows", "ctype": "int32"},
                    {"name": "columns", "ctype": "int32"},
                    "stream",
                ],
            },
            "sources": [{"path": "sigmoid.cu"}],
        }
    ),
}


@pytest.fixture
def problem(tmp_path):
    """A small problem of a kind that nothing in the package was written for."""
    root = tmp_path / "sigmoid"
    for name, text in FILES.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return root


@pytest.fixture
def start(tmp_path):
    """Starts `astra` in a fresh directory; the caller waits for it."""

    def popen(*arguments, **env):
        return subprocess.Popen(
            [sys.executable, "-m", "astra_kernels", *map(str, arguments)],
            cwd=tmp_path, env={**os.environ, "COLUMNS": "200", "ASTRA_MEMORY": str(tmp_path / "memory.jsonl"), **env}, text=True,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        )  # fmt: skip

    return popen


@pytest.fixture
def astra(start):
    def run(*arguments, **env):
        process = start(*arguments, **env)
        out, err = process.communicate(timeout=300)
        assert "Traceback" not in err, err
        return subprocess.CompletedProcess(process.args, process.returncode, out, err)

    return run
