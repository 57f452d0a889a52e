"""Kernels that no rewrite was written for, what they compute, and which rewrite does what on them.

``rows`` yields one row per kernel, rewrite and point: applied, refused with its reason, or
verified on a device against NumPy.
"""

import importlib.util
import os
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Literal

import ml_dtypes
import numpy as np

from astra_kernels.agents.rewrites import REWRITES, Applied, ParameterPoint, Program, Rewrite

CU = Path(__file__).parent / "cu"
PROBLEMS = Path(__file__).parents[3] / "examples"
EXAMPLES = {
    "fast_math": ParameterPoint.of(replace="exp"),
    "hoist_invariants": ParameterPoint.of(hoist="div+call+load"),
    "warp_shuffle_reduction": ParameterPoint.of(shuffle="xor"),
    "vector_width": ParameterPoint.of(bytes=16, unroll=1),
    "cache_policy": ParameterPoint.of(load="ldcs", store="stcs"),
    "unroll": ParameterPoint.of(factor=4),
    "launch_geometry": ParameterPoint.of(split=4),
    "launch_bounds": ParameterPoint.of(warps=0),
    "programmatic_launch": ParameterPoint.of(trigger="start"),
}
"""A point to ask for where a rewrite offers none, to hear its reason."""

Argument = np.ndarray | int | float
Make = Callable[[np.random.Generator, tuple[int, ...]], list[Argument]]
Reference = Callable[[list[Argument]], dict[int, np.ndarray]]


@dataclass(frozen=True)
class Case:
    """One kernel of the corpus.

    Attributes:
        file: The source under ``cu/``, or of a problem's baseline.
        entry: Its host function.
        sizes: Size tuples to run; odd ones make rows misaligned.
        make: Draws the arguments, in order.
        reference: The expected value of each output argument, by position.
        tolerance: Largest difference, relative to the output's scale.
        header: The header of the FlashInfer wheel that it includes, with all that it includes.
        problem: The example problem whose baseline this is.
    """

    file: str
    entry: str
    sizes: tuple[tuple[int, ...], ...]
    make: Make
    reference: Reference
    tolerance: float
    header: str = ""
    problem: str = ""

    @property
    def name(self) -> str:
        return (self.problem and f"problem_{self.problem}") or self.file.removesuffix(".cu")

    def program(self) -> Program:
        folder = PROBLEMS / self.problem / "baseline" if self.problem else CU
        sources = {self.file: (folder / self.file).read_text()}
        if self.header:
            sources |= flashinfer_sources(self.header)
        return Program(sources, f"{self.file}::{self.entry}")


@cache
def flashinfer_include() -> Path | None:
    """Returns the include folder of an installed FlashInfer wheel, which is not imported."""
    found = importlib.util.find_spec("flashinfer")
    places = found.submodule_search_locations if found is not None else None
    folders = [Path(place) / "data" / "include" for place in places or ()]
    return next((folder for folder in folders if folder.is_dir()), None)


@cache
def flashinfer_sources(header: str) -> dict[str, str]:
    """Returns a header and the FlashInfer headers that it includes, by path."""
    root = flashinfer_include()
    assert root is not None
    found: dict[str, str] = {}
    pending = [header]
    while pending:
        path = pending.pop()
        if path in found or not (root / path).is_file():
            continue
        found[path] = (root / path).read_text()
        for name in re.findall(r'#include ["<]([^">]+)[">]', found[path]):
            beside = os.path.normpath(f"{Path(path).parent}/{name}")
            pending += [beside, name]
    return found


def _halves(rng: np.random.Generator, *shape: int, scale: float = 1.0) -> np.ndarray:
    return (rng.standard_normal(shape) * scale).astype(np.float16)


def _floats(rng: np.random.Generator, *shape: int, scale: float = 1.0) -> np.ndarray:
    return (rng.standard_normal(shape) * scale).astype(np.float32)


def _f64(value: Argument) -> np.ndarray:
    return np.asarray(value).astype(np.float64)


def _silu(x: np.ndarray) -> np.ndarray:
    return x / (1 + np.exp(-x))


def _silu_arguments(rng: np.random.Generator, size: tuple[int, ...]) -> list[Argument]:
    rows, d = size
    return [np.zeros((rows, d), np.float16), _halves(rng, rows, 2 * d, scale=3), rows, d]


def _silu_reference(a: list[Argument]) -> dict[int, np.ndarray]:
    x = _f64(a[1])
    d = x.shape[1] // 2
    return {0: _silu(x[:, :d]).astype(np.float16).astype(np.float64) * x[:, d:]}


def _exact_silu_reference(a: list[Argument]) -> dict[int, np.ndarray]:
    x, gate = np.split(_f64(a[1]), 2, axis=1)
    return {0: _silu(x) * gate}


def _norm_arguments(rng: np.random.Generator, size: tuple[int, ...]) -> list[Argument]:
    rows, d = size
    return [_halves(rng, rows, d), _halves(rng, rows, d), _halves(rng, d), rows, d, 1e-5]


def _norm_reference(a: list[Argument]) -> dict[int, np.ndarray]:
    total = _f64(a[0]) + _f64(a[1])
    scale = 1 / np.sqrt((total**2).mean(axis=1, keepdims=True) + 1e-5)
    return {0: total * scale * _f64(a[2]), 1: total}


def _rms_arguments(rng: np.random.Generator, size: tuple[int, ...]) -> list[Argument]:
    rows, d = size
    return [_halves(rng, rows, d), _halves(rng, d), np.zeros((rows, d), np.float16), rows, d, 1e-5]


def _rms_reference(a: list[Argument]) -> dict[int, np.ndarray]:
    x = _f64(a[0])
    return {2: x / np.sqrt((x**2).mean(axis=1, keepdims=True) + 1e-5) * _f64(a[1])}


def _merge_arguments(rng: np.random.Generator, size: tuple[int, ...]) -> list[Argument]:
    rows, d = size
    out, lse = np.zeros((rows, d), np.float16), np.zeros(rows, np.float32)
    states = [_halves(rng, rows, d), _floats(rng, rows, scale=4)]
    return [out, lse, *states, _halves(rng, rows, d), _floats(rng, rows, scale=4), rows, d]


def _merged(v_a: Argument, s_a: Argument, v_b: Argument, s_b: Argument, base: float) -> tuple:
    weight_a, weight_b = base ** _f64(s_a), base ** _f64(s_b)
    total = weight_a + weight_b
    merged = _f64(v_a) * (weight_a / total)[..., None] + _f64(v_b) * (weight_b / total)[..., None]
    return merged, np.log(total) / np.log(base)


def _merge_reference(a: list[Argument]) -> dict[int, np.ndarray]:
    return dict(enumerate(_merged(a[2], a[3], a[4], a[5], np.e)))


def _merge2_arguments(rng: np.random.Generator, size: tuple[int, ...]) -> list[Argument]:
    n, h, d = size
    a, b = ([_halves(rng, n, h, d), _floats(rng, n, h, scale=3)] for _ in range(2))
    return [*a, *b, np.zeros((n, h, d), np.float16), np.zeros((n, h), np.float32), n, h, d]


def _merge2_reference(a: list[Argument]) -> dict[int, np.ndarray]:
    return dict(enumerate(_merged(a[0], a[1], a[2], a[3], 2.0), start=4))


def _row_floats(rng: np.random.Generator, size: tuple[int, ...]) -> list[Argument]:
    rows, d = size
    return [_floats(rng, rows, d, scale=3), np.zeros((rows, d), np.float32), rows, d]


def _softmax_reference(a: list[Argument]) -> dict[int, np.ndarray]:
    x = _f64(a[0])
    e = np.exp(x - x.max(axis=1, keepdims=True))
    return {1: e / e.sum(axis=1, keepdims=True)}


def _gelu_arguments(rng: np.random.Generator, size: tuple[int, ...]) -> list[Argument]:
    return [np.zeros(size[0], np.float32), _halves(rng, size[0]), size[0]]


def _gelu_reference(a: list[Argument]) -> dict[int, np.ndarray]:
    x = _f64(a[1])
    return {0: 0.5 * x * (1 + np.tanh(0.7978845608028654 * (x + 0.044715 * x**3)))}


def _layer_norm_arguments(rng: np.random.Generator, size: tuple[int, ...]) -> list[Argument]:
    rows, d = size
    x = _floats(rng, rows, d).astype(ml_dtypes.bfloat16)
    outputs = [np.zeros_like(x), np.zeros(rows, np.float32)]
    return [*outputs, x, _floats(rng, d), _floats(rng, d), rows, d, 1e-5]


def _layer_norm_reference(a: list[Argument]) -> dict[int, np.ndarray]:
    x = _f64(a[2])
    mean = x.mean(axis=1, keepdims=True)
    scale = 1 / np.sqrt((x**2).mean(axis=1, keepdims=True) - mean**2 + 1e-5)
    return {0: (x - mean) * scale * _f64(a[3]) + _f64(a[4]), 1: scale[:, 0]}


def _quantise_arguments(rng: np.random.Generator, size: tuple[int, ...]) -> list[Argument]:
    rows, d = size
    outputs = [np.zeros((rows, d), np.int8), np.zeros(rows, np.float32)]
    return [_halves(rng, rows, d), *outputs, rows, d]


def _quantise_reference(a: list[Argument]) -> dict[int, np.ndarray]:
    x = np.asarray(a[0]).astype(np.float32)
    scale = np.abs(x).max(axis=1) / np.float32(127)
    return {1: np.clip(np.rint(x / scale[:, None]), -127, 127), 2: scale}


def _pairs_arguments(rng: np.random.Generator, size: tuple[int, ...]) -> list[Argument]:
    rows, pairs = size
    shape = (rows, 2 * pairs)
    return [np.zeros(shape, np.float16), _halves(rng, *shape), _halves(rng, *shape), *size, 0.5]


def _bias_arguments(rng: np.random.Generator, size: tuple[int, ...]) -> list[Argument]:
    return [_floats(rng, *size), _floats(rng, size[1]), *size]


def _rope_arguments(rng: np.random.Generator, size: tuple[int, ...]) -> list[Argument]:
    tokens, heads, half = size
    x = _halves(rng, tokens, heads, 2 * half)
    return [x, np.arange(tokens, dtype=np.int32), tokens, heads, half, 100.0]


def _rope_reference(a: list[Argument]) -> dict[int, np.ndarray]:
    x, half = _f64(a[0]), int(a[4])
    angle = _f64(a[1])[:, None, None] * 100.0 ** (-np.arange(half) / half)
    first, second = x[..., :half], x[..., half:]
    cos, sin = np.cos(angle), np.sin(angle)
    return {0: np.concatenate([first * cos - second * sin, first * sin + second * cos], axis=-1)}


def _sum_arguments(rng: np.random.Generator, size: tuple[int, ...]) -> list[Argument]:
    return [_floats(rng, *size), np.zeros(size[0], np.float32), *size]


def _normalise_reference(a: list[Argument]) -> dict[int, np.ndarray]:
    x = _f64(a[0])
    return {0: x / np.sqrt((x**2).sum(axis=1, keepdims=True) + 1e-5)}


def _clamp_arguments(rng: np.random.Generator, size: tuple[int, ...]) -> list[Argument]:
    x = _floats(rng, *size).astype(ml_dtypes.bfloat16)
    return [x, _floats(rng, size[0]), np.zeros(size[0], np.int32), *size]


def _clamp_reference(a: list[Argument]) -> dict[int, np.ndarray]:
    return {0: np.clip(_f64(a[0]) / _f64(a[1])[:, None], -2, 2), 2: np.ones(len(a[2]))}


def _scale_arguments(rng: np.random.Generator, size: tuple[int, ...]) -> list[Argument]:
    rows, d = size
    statistics = [_floats(rng, rows), np.abs(_floats(rng, rows))]
    return [np.zeros(size, np.float16), _halves(rng, rows, d), *statistics, rows, d, 1e-5]


def _scale_reference(a: list[Argument]) -> dict[int, np.ndarray]:
    scale = 1 / np.sqrt(_f64(a[3]) + 1e-5)
    return {0: (_f64(a[1]) - _f64(a[2])[:, None]) * scale[:, None]}


def _groups_arguments(rng: np.random.Generator, size: tuple[int, ...]) -> list[Argument]:
    rows, groups = size
    values = rng.integers(-127, 128, (rows, groups * 8)).astype(np.int8)
    scales = np.abs(_floats(rng, rows, groups))
    return [np.zeros(values.shape, np.float32), values, scales, rows, groups, 8]


def _groups_reference(a: list[Argument]) -> dict[int, np.ndarray]:
    return {0: _f64(a[1]) * np.repeat(_f64(a[2]), 8, axis=1) / 127}


def _gate_arguments(rng: np.random.Generator, size: tuple[int, ...]) -> list[Argument]:
    x = _floats(rng, *size)
    return [x, _floats(rng, *size), _floats(rng, size[0]), *size, 0.5]


def _gate_reference(a: list[Argument]) -> dict[int, np.ndarray]:
    return {0: _f64(a[0]) + _f64(a[1]) * np.exp(-_f64(a[2]) / 0.5)[:, None]}


def _moments_arguments(rng: np.random.Generator, size: tuple[int, ...]) -> list[Argument]:
    return [np.zeros(size, np.float16), _halves(rng, *size), *size]


def _moments_reference(a: list[Argument]) -> dict[int, np.ndarray]:
    x = _f64(a[1])
    return {0: (x - x.mean(axis=1, keepdims=True)) / np.sqrt(x.var(axis=1, keepdims=True) + 1e-5)}


ROWS = ((1, 1), (3, 7), (2, 64), (3, 1000), (2, 1029), (5, 2048))
CASES = (
    Case("silu_and_mul.cu", "silu_and_mul", ROWS, _silu_arguments, _silu_reference, 2e-3),
    Case("fused_add_rmsnorm.cu", "fused_add_rmsnorm", ROWS, _norm_arguments, _norm_reference, 2e-3),
    Case("merge_states.cu", "merge_states", ROWS, _merge_arguments, _merge_reference, 1e-3),
    Case("softmax.cu", "softmax", ROWS, _row_floats, _softmax_reference, 1e-5),
    Case(
        "gelu.cu", "gelu", ((1,), (37,), (1000,), (70001,)), _gelu_arguments, _gelu_reference, 3e-3
    ),
    Case(
        "layer_norm.cu", "layer_norm", ROWS[1:], _layer_norm_arguments, _layer_norm_reference, 8e-3
    ),
    Case("quantise_rows.cu", "quantise_rows", ROWS, _quantise_arguments, _quantise_reference, 8e-3),
    Case(
        "scaled_add_half2.cu",
        "scaled_add",
        ROWS,
        _pairs_arguments,
        lambda a: {0: _f64(a[1]) + 0.5 * _f64(a[2])},
        2e-3,
    ),
    Case(
        "bias_add.cu",
        "bias_add",
        ROWS,
        _bias_arguments,
        lambda a: {0: 1 / (1 + np.exp(-_f64(a[0]) - _f64(a[1])))},
        1e-5,
    ),
    Case(
        "rope.cu",
        "rope",
        ((3, 2, 5), (4, 1, 64), (2, 3, 136)),
        _rope_arguments,
        _rope_reference,
        4e-3,
    ),
    Case(
        "copy_scale_float4.cu",
        "copy_scale",
        ROWS,
        lambda rng, size: [*_row_floats(rng, size), 2.0],
        lambda a: {1: 2 * _silu(_f64(a[0]))},
        1e-5,
    ),
    Case(
        "normalise_rows.cu",
        "normalise_rows",
        ROWS,
        lambda rng, size: [_halves(rng, *size), *size, 1e-5],
        _normalise_reference,
        2e-3,
    ),
    Case("clamp_scale.cu", "clamp_scale", ROWS, _clamp_arguments, _clamp_reference, 8e-3),
    Case(
        "tree_sum.cu", "tree_sum", ROWS, _sum_arguments, lambda a: {1: _f64(a[0]).sum(axis=1)}, 1e-5
    ),
    Case("scale_rows.cu", "scale_rows", ROWS, _scale_arguments, _scale_reference, 2e-3),
    Case(
        "dequantise_groups.cu",
        "dequantise_groups",
        ((1, 1), (3, 7), (2, 64)),
        _groups_arguments,
        _groups_reference,
        1e-5,
    ),
    Case("gated_residual.cu", "gated_residual", ROWS, _gate_arguments, _gate_reference, 1e-5),
    Case("tree_softmax.cu", "tree_softmax", ROWS, _row_floats, _softmax_reference, 1e-5),
    Case(
        "tree_moments.cu",
        "tree_moments",
        ROWS[1:],
        _moments_arguments,
        _moments_reference,
        2e-3,
    ),
    Case(
        "macro_heavy.cu",
        "negate",
        ROWS,
        lambda rng, size: [_floats(rng, *size), *size],
        lambda a: {0: -_f64(a[0])},
        0,
    ),
)

FLASHINFER_CASES = (
    Case(
        "flashinfer_activation.cu",
        "flashinfer_silu_and_mul",
        ((1, 8), (3, 72), (2, 1024), (3, 4104)),
        _silu_arguments,
        _exact_silu_reference,
        2e-3,
        "flashinfer/activation.cuh",
    ),
    Case(
        "flashinfer_norm.cu",
        "flashinfer_rmsnorm",
        ((2, 64), (3, 1000), (2, 1029), (2, 4096)),
        _rms_arguments,
        _rms_reference,
        2e-3,
        "flashinfer/norm.cuh",
    ),
    Case(
        "flashinfer_fused_norm.cu",
        "flashinfer_fused_add_rmsnorm",
        ((2, 64), (3, 1000), (2, 1029), (2, 4096)),
        _norm_arguments,
        _norm_reference,
        2e-3,
        "flashinfer/norm.cuh",
    ),
    Case(
        "flashinfer_merge.cu",
        "flashinfer_merge_state",
        ((3, 2, 64), (2, 8, 128), (2, 3, 256)),
        _merge2_arguments,
        _merge2_reference,
        1e-3,
        "flashinfer/attention/cascade.cuh",
    ),
)


def _problem(
    name: str, sizes: tuple[tuple[int, ...], ...], make: Make, reference: Reference
) -> Case:
    return Case(f"{name}.cu", name, sizes, make, reference, 2e-3, problem=name)


PROBLEM_CASES = (
    _problem("silu_and_mul", (*ROWS, (2, 4104)), _silu_arguments, _exact_silu_reference),
    _problem(
        "fused_add_rmsnorm",
        ROWS,
        lambda rng, size: [*_norm_arguments(rng, size)[:3], 1e-5, *size],
        _norm_reference,
    ),
    _problem(
        "merge_attn_states_lse",
        ((1, 1, 1), (3, 2, 64), (2, 3, 33), (2, 8, 128)),
        _merge2_arguments,
        _merge2_reference,
    ),
)


@dataclass(frozen=True)
class Row:
    """What one rewrite did to one kernel at one point."""

    kernel: str
    rewrite: str
    point: str
    outcome: Literal["applied", "refused", "verified", "wrong"]
    detail: str


Verify = Callable[[Case, Applied], str]
"""Returns what is wrong with a rewritten kernel, or an empty string."""


def points(rewrite: Rewrite, program: Program) -> tuple[ParameterPoint, ...]:
    """Returns the points to look at: those offered, or one that draws the reason."""
    return rewrite.parameters(program) or (EXAMPLES[rewrite.name],)


def rows(cases: Sequence[Case], verify: Verify | None = None) -> Iterator[Row]:
    """Yields what every rewrite does to every kernel, and whether the result is right."""
    for case in cases:
        program = case.program()
        for rewrite in REWRITES:
            for point in points(rewrite, program):
                result = rewrite.apply(program, point)
                here = (case.name, rewrite.name, str(point))
                if not isinstance(result, Applied):
                    yield Row(*here, "refused", result.reason)
                elif verify is None:
                    yield Row(*here, "applied", result.summary)
                else:
                    wrong = verify(case, result)
                    yield Row(*here, "wrong" if wrong else "verified", wrong or result.summary)


def exported(source: str) -> list[str]:
    """Returns the names of a source's ``extern "C"`` functions."""
    return re.findall(r'extern "C" \w+ (\w+)\(', source)


def difference(case: Case, arguments: list[Argument], expected: dict[int, np.ndarray]) -> str:
    """Returns where the outputs leave the tolerance, or an empty string."""
    for position, want in expected.items():
        got = _f64(arguments[position]).reshape(want.shape)
        scale = max(1.0, float(np.max(np.abs(want))) if want.size else 1.0)
        error = np.abs(got - want) / np.maximum(np.abs(want), 0.05 * scale)
        limit = case.tolerance
        if position == 1 and case.name == "quantise_rows":
            error, limit = np.abs(got - want), 1.0
        if not np.all(error <= limit):
            worst = int(np.nanargmax(np.where(np.isnan(error), np.inf, error)))
            pair = f"{got.flat[worst]} for {want.flat[worst]}"
            return f"argument {position}, element {worst}: {pair}"
    return ""
