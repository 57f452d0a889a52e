"""A small engine with one C operator: a namespace, a macro, a header that others include, and an inline helper."""

import json

from tests.exporting.conftest import provenance, solution

OPERATOR = """\
// SPDX-License-Identifier: Apache-2.0
// Copyright: the authors of this test.

#include <cuda_runtime.h>

#include "common/config.h"
#include "common/element.cuh"

namespace engine {

__global__ void scale_kernel(float* __restrict__ y, const float* __restrict__ x, float a, int columns) {
  const int64_t row = blockIdx.x;
  for (int i = threadIdx.x; i < columns; i += ENGINE_THREADS) {
    y[row * columns + i] = ::engine::scaled(x[row * columns + i], a);
  }
}

}  // namespace engine

extern "C" int engine_scale(float* y, const float* x, float a, int rows, int columns, cudaStream_t stream) {
  if (rows == 0) return 0;
  engine::scale_kernel<<<rows, ENGINE_THREADS, 0, stream>>>(y, x, a, columns);
  return static_cast<int>(cudaGetLastError());
}

extern "C" int engine_version() { return 3; }
"""
CONFIG = """\
#ifndef ENGINE_CONFIG_H_
#define ENGINE_CONFIG_H_

#define ENGINE_THREADS 32

#endif  // ENGINE_CONFIG_H_
"""
DETAIL = """\
#pragma once

namespace engine {

__device__ inline float times(float a, float b) { return a * b; }

}  // namespace engine
"""
ELEMENT = """\
#pragma once

#include <cstdint>

#include "detail.cuh"

namespace engine {

__device__ inline float scaled(float x, float a) { return times(a, x); }
__device__ inline float unused(float x) { return x; }

}  // namespace engine
"""
TREE = {
    "csrc/scale.cu": OPERATOR,
    "csrc/common/config.h": CONFIG,
    "csrc/common/element.cuh": ELEMENT,
    "csrc/common/detail.cuh": DETAIL,
    "README.md": "An engine.\\n",
}
EDITS = (
    ("common/config.h", "ENGINE_THREADS 32", "ENGINE_THREADS 512"),
    ("common/element.cuh", "times(a, x)", "times(x, a)"),
)
"""The macro decides the speed; the helper's text differs, so two of its name must not meet."""
SIZES = ((4, 8192), (16, 8192), (64, 8192), (64, 16), (7, 1001))


def problem_files(tree):
    pruned = OPERATOR.partition('extern "C" int engine_version')[0].rstrip() + "\n"
    definition = {
        "name": "engine_scale",
        "axes": {"rows": {"type": "var"}, "columns": {"type": "var"}},
        "inputs": {
            "x": {"shape": ["rows", "columns"], "dtype": "float32"},
            "a": {"shape": None, "dtype": "float32"},
        },
        "outputs": {"y": {"shape": ["rows", "columns"], "dtype": "float32"}},
    }
    workloads = [
        {
            "uuid": f"{rows}x{columns}",
            "axes": {"rows": rows, "columns": columns},
            "inputs": {"x": {"type": "random"}, "a": {"type": "scalar", "value": 1.5}},
        }
        for rows, columns in SIZES
    ]
    line = OPERATOR[: OPERATOR.index("int engine_scale")].count("\n") + 1
    files = [
        ("scale.cu", "csrc/scale.cu", False),
        ("common/config.h", "csrc/common/config.h", True),
        ("common/element.cuh", "csrc/common/element.cuh", True),
        ("common/detail.cuh", "csrc/common/detail.cuh", True),
    ]
    arguments = [
        "y", "x", "a", {"name": "rows", "ctype": "int32"}, {"name": "columns", "ctype": "int32"}, "stream",
    ]  # fmt: skip
    return {
        "definition.json": json.dumps(definition),
        "workload.jsonl": "".join(json.dumps(w) + "\n" for w in workloads),
        "reference.py": "def run(x, a):\n    return (x * a,)\n\n\ndef reference_fp64(x, a):\n    return (x * a,)\n",
        "baseline/solution.json": solution(
            "engine_scale",
            "scale.cu",
            "engine_scale",
            "c",
            arguments,
            [here for here, _, _ in files],
        ),
        "baseline/scale.cu": pruned,
        "baseline/common/config.h": CONFIG,
        "baseline/common/element.cuh": ELEMENT,
        "baseline/common/detail.cuh": DETAIL,
        "provenance.json": json.dumps(
            provenance(tree, "engine_scale", ("engine_scale", "csrc/scale.cu", line), files)
        ),
    }
