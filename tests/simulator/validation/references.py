"""What kernels of the corpus compute, in NumPy and double precision, where that is simple."""

from __future__ import annotations

from collections.abc import Callable

import ml_dtypes
import numpy as np

from tests.simulator.validation.point import Point


def wide(values, dtype):
    """As float64."""
    if dtype == "bf16":
        values = values.view(ml_dtypes.bfloat16)
    return values.astype(np.float64)


def _inputs(point: Point):
    found = {a.name: wide(x, a.dtype) for a, x in zip(point.arrays, point.inputs(), strict=True)}
    sizes = [a for a in point.arguments if isinstance(a, (int, float))]
    return found, sizes


def _softmax(x, rows, width):
    e = np.exp(x.reshape(rows, width) - x.reshape(rows, width).max(1, keepdims=True))
    return e / e.sum(1, keepdims=True)


def _layernorm(x, w, b, rows, width):
    x = x.reshape(rows, width)
    return (x - x.mean(1, keepdims=True)) / np.sqrt(x.var(1, keepdims=True) + 1e-5) * w + b


def _rmsnorm(x, w, rows, width):
    x = x.reshape(rows, width)
    return x / np.sqrt((x * x).mean(1, keepdims=True) + 1e-6) * w


def _rope(way, x, c, s, tokens, heads, dim):
    x = x.reshape(tokens, heads, dim)
    c, s = (t.reshape(tokens, 1, dim // 2) for t in (c, s))
    pair = np.s_[..., : dim // 2], np.s_[..., dim // 2 :]
    first, second = pair if way == "halves" else (np.s_[..., ::2], np.s_[..., 1::2])
    turned = np.empty_like(x)
    turned[first] = x[first] * c - x[second] * s
    turned[second] = x[first] * s + x[second] * c
    return turned


def _stencil(x, rows, columns):
    x, y = x.reshape(rows, columns), np.zeros((rows, columns))
    around = x[1:-1, :-2] + x[1:-1, 2:] + x[:-2, 1:-1] + x[2:, 1:-1]
    y[1:-1, 1:-1] = 0.5 * x[1:-1, 1:-1] + 0.125 * around
    return y


def _permuted(way, x, index):
    index = index.astype(np.int64)
    if way == "gather":
        return x[index]
    y = np.empty_like(x)
    y[index] = x
    return y


def _scanned(x, block):
    whole = np.concatenate([np.cumsum(part) for part in np.split(x, range(block, x.size, block))])
    return (whole + 2**31) % 2**32 - 2**31


def _pipelined(x, blocks, chunks):
    sums = x.reshape(blocks, chunks, 256, 4).sum(1)
    return sums[:, np.arange(256) ^ 1]


_SPECIAL = {
    "exp": np.exp,
    "log": lambda x: np.log(x + 3),
    "sin": np.sin,
    "tanh": np.tanh,
    "rsqrt": lambda x: 1 / np.sqrt(x + 3),
    "reciprocal": lambda x: 1 / (x + 3),
    "expf": np.exp,
    "logf": lambda x: np.log(x + 3),
    "sinf": np.sin,
    "silu": lambda x: x / (1 + np.exp(-x)),
}


def _topk(x, rows, width, count):
    return np.argsort(-x.reshape(rows, width), axis=1, kind="stable")[:, :count]


# By kernel: of the point, its inputs by name and its sizes, the first output.
REFERENCES: dict[str, Callable[[Point, dict, list], np.ndarray]] = {
    "scale_f32": lambda p, i, n: 1.5 * i["x"] + 0.25,
    "add_f16": lambda p, i, n: i["a"] + i["b"],
    "silu_bf16": lambda p, i, n: _SPECIAL["silu"](i["x"]),
    "copy_offset": lambda p, i, n: i["x"][int(p.way) :][: n[0]],
    "strided_read": lambda p, i, n: (
        i["x"][np.arange(n[0]) * int(p.way) % n[0]] + np.arange(n[0]) % 4
    ),
    "axpy_f64": lambda p, i, n: 1.25 * i["x"] + i["y"],
    "sum_i32": lambda p, i, n: (i["x"].sum() + 2**31) % 2**32 - 2**31,
    "row_sum": lambda p, i, n: i["x"].reshape(n).sum(1),
    "softmax_f32": lambda p, i, n: _softmax(i["x"], *n),
    "layernorm_f16": lambda p, i, n: _layernorm(i["x"], i["w"], i["b"], *n),
    "rmsnorm_bf16": lambda p, i, n: _rmsnorm(i["x"], i["w"], *n),
    "argmax_rows": lambda p, i, n: _topk(i["x"], *n, 1),
    "topk_rows": lambda p, i, n: _topk(i["x"], *n, 4),
    "transpose_f32": lambda p, i, n: i["x"].reshape(n).T,
    "gather_rows": lambda p, i, n: i["table"].reshape(-1, n[1])[i["index"].astype(int)],
    "permute_i32": lambda p, i, n: _permuted(p.way, i["x"], i["index"]),
    "rope_f16": lambda p, i, n: _rope(p.way, i["x"], i["cosine"], i["sine"], *n),
    "stencil_f32": lambda p, i, n: _stencil(i["x"], *n),
    "histogram_u8": lambda p, i, n: np.bincount(i["x"].astype(int), minlength=256),
    "scan_i32": lambda p, i, n: _scanned(i["x"], p.block),
    "matvec_f32": lambda p, i, n: i["a"].reshape(n) @ i["x"],
    "matmul_f32": lambda p, i, n: i["a"].reshape(n[0], -1) @ i["b"].reshape(n[0], -1),
    "pipeline_f32": lambda p, i, n: _pipelined(i["x"], *n),
    "quantise_int8": lambda p, i, n: np.rint(
        i["x"].reshape(n) * 127 / np.abs(i["x"].reshape(n)).max(1, keepdims=True)
    ),
    "dequantise_int8": lambda p, i, n: i["q"].reshape(n) * i["scales"][:, None],
    "special_f32": lambda p, i, n: _SPECIAL[p.way](i["x"]),
    "functions_f32": lambda p, i, n: _SPECIAL[p.way](i["x"]),
}


def reference(point: Point) -> np.ndarray | None:
    """The first output as float64, flat; None where there is no reference."""
    function = REFERENCES.get(point.kernel)
    if function is None:
        return None
    inputs, sizes = _inputs(point)
    return np.asarray(function(point, inputs, sizes), np.float64).ravel()
