"""Errors of floating outputs in units in the last place, chunk by chunk.

One unit in the last place (ulp) is the distance between neighbouring numbers of the output type at
the wanted value: 2^(max(e, e_min) - p) for a value in [2^e, 2^(e+1)), p explicit fraction bits and
e_min the smallest normal exponent, so that subnormals have the ulp of the smallest normal.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from astra_kernels.jobs.elements import FLOAT_FORMATS, FloatFormat, as_float64, numpy_dtype

_CHUNK = 1 << 18
ULP_CAP = 1e15
"""Larger errors are counted as this many, so that sums of squares stay finite."""


@dataclass
class ErrorSum:
    """Running statistics over the chunks of one output."""

    max_ulp: float = 0.0
    worst: int = 0
    squares: float = 0.0
    elements: int = 0
    mismatches: int = 0
    max_abs: float = 0.0
    max_want: float = 0.0
    misplaced: int = 0
    """NaNs and infinities where the oracle has none, or the reverse."""
    first_misplaced: int | None = None
    unmatched: int = 0
    """Elements beyond atol + rtol * |want|."""
    first_unmatched: int | None = None


def float_errors(
    got: np.ndarray, want: np.ndarray, dtype: str, bounds: tuple[float, float] | None
) -> ErrorSum:
    """Compares flat `got` (the output's type) with flat `want` (float64).

    Args:
        got: values of the kernel.
        want: the oracle's values.
        dtype: the output's element type.
        bounds: (atol, rtol) for counting elements beyond a tolerance.
    """
    total = ErrorSum(elements=got.size)
    form = FLOAT_FORMATS[dtype]
    with np.errstate(all="ignore"):
        for start, got_chunk, want_chunk in _chunks(got, want):
            _add_chunk(total, start, (got_chunk, want_chunk), (dtype, form), bounds)
    return total


def _chunks(got: np.ndarray, want: np.ndarray) -> Iterator[tuple[int, np.ndarray, np.ndarray]]:
    for start in range(0, got.size, _CHUNK):
        yield start, got[start : start + _CHUNK], want[start : start + _CHUNK]


def _add_chunk(
    total: ErrorSum,
    start: int,
    pair: tuple[np.ndarray, np.ndarray],
    kind: tuple[str, FloatFormat],
    bounds: tuple[float, float] | None,
) -> None:
    dtype, form = kind
    got, want = as_float64(pair[0]), pair[1]
    rounded = want if dtype == "float64" else as_float64(want.astype(numpy_dtype(dtype)))
    difference = np.abs(got - want)
    errors = _in_ulps(difference, want, form)
    differs = got != rounded
    special = ~np.isfinite(difference + rounded)  # NaN or infinite in any of the three
    if special.any():
        places = np.flatnonzero(special)
        bad = _settle(errors, differs, places, (got, want, rounded), form)
        difference[places] = 0.0
        if bad.size:
            total.misplaced += int(bad.size)
            total.first_misplaced = _first(total.first_misplaced, start + int(bad[0]))
            difference[bad] = np.inf
    _accumulate(total, start, errors, differs)
    finite = difference[~np.isinf(difference)] if special.any() else difference
    total.max_abs = max(total.max_abs, float(finite.max(initial=0.0)))
    size = np.abs(want)
    total.max_want = max(total.max_want, float(size.max(initial=0.0, where=np.isfinite(size))))
    if bounds is not None:
        _count_unmatched(total, start, difference, size, bounds)


def _in_ulps(difference: np.ndarray, want: np.ndarray, form: FloatFormat) -> np.ndarray:
    exponent = (want.view(np.int64) >> 52) & 0x7FF
    exponent -= 1023
    np.maximum(exponent, form.min_exponent, out=exponent)
    if form.fraction_bits == 52:
        return np.asarray(np.ldexp(difference, form.fraction_bits - exponent))
    np.subtract(form.fraction_bits + 1023, exponent, out=exponent)
    exponent <<= 52
    result: np.ndarray = difference * exponent.view(np.float64)
    return result


def _settle(
    errors: np.ndarray,
    differs: np.ndarray,
    places: np.ndarray,
    values: tuple[np.ndarray, np.ndarray, np.ndarray],
    form: FloatFormat,
) -> np.ndarray:
    """Sets the errors where something is not finite; returns the places that disagree."""
    got, want, rounded = (v[places] for v in values)
    same = (np.isnan(got) & np.isnan(want)) | (np.isinf(rounded) & (got == rounded))
    overflow = 2.0 ** (np.floor(np.log2(form.largest)) + 1)
    same_sign = np.signbit(got) == np.signbit(want)
    at_edge = (np.abs(want) >= form.largest) & (np.abs(want) < overflow)
    at_edge &= same_sign & (np.isinf(got) | (np.abs(got) == form.largest))
    clipped = np.minimum(np.abs(got), overflow)
    edge_error = _in_ulps(np.abs(clipped - np.abs(want)), np.ascontiguousarray(want), form)
    errors[places] = np.where(at_edge & ~same, edge_error, 0.0)
    if form.saturates:  # __nv_cvt_*_fp8 clamps or overflows as it is told: both are right
        beyond = np.abs(want) > form.largest
        clamped = (np.abs(got) == form.largest) & same_sign
        same |= beyond & (clamped | ~np.isfinite(got))
    ok = same | at_edge
    differs[places] = ~same
    errors[places[~ok]] = ULP_CAP
    return np.asarray(places[~ok])


def _accumulate(total: ErrorSum, start: int, errors: np.ndarray, differs: np.ndarray) -> None:
    np.minimum(errors, ULP_CAP, out=errors)
    total.mismatches += int(np.count_nonzero(differs))
    total.squares += float(np.dot(errors, errors))
    worst = int(errors.argmax())
    if errors[worst] > total.max_ulp:
        total.max_ulp, total.worst = float(errors[worst]), start + worst


def _count_unmatched(
    total: ErrorSum,
    start: int,
    difference: np.ndarray,
    size: np.ndarray,
    bounds: tuple[float, float],
) -> None:
    atol, rtol = bounds
    finite_size = np.where(np.isfinite(size), size, 0.0)
    beyond = difference > atol + rtol * finite_size
    count = int(np.count_nonzero(beyond))
    if count:
        total.unmatched += count
        total.first_unmatched = _first(total.first_unmatched, start + int(beyond.argmax()))


def _first(known: int | None, found: int) -> int:
    return found if known is None else known


def step_errors(got: np.ndarray, want: np.ndarray) -> ErrorSum:
    """Compares flat integers or booleans; an error of one step counts as one ulp."""
    total = ErrorSum(elements=got.size)
    for start, got_chunk, want_chunk in _chunks(got, want):
        differs = got_chunk != want_chunk
        if differs.any():
            errors = np.abs(got_chunk.astype(np.float64) - want_chunk.astype(np.float64))
            errors = np.where(differs, np.maximum(errors, 1.0), 0.0)  # int64 may round to equal
            total.max_abs = max(total.max_abs, float(errors.max()))
            _accumulate(total, start, errors, differs)
    return total
