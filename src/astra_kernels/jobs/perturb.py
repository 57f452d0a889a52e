"""Inputs that differ from one timed call to the next: which bits chance may turn over, and what comes of it.

A kernel that remembers what it computed is fast on inputs that it has seen. So every buffer set of every
replay holds inputs of its own: signs drawn anew where the distribution is symmetric, else the last bit of
the fraction. Both leave magnitudes, and so the work, as they were. The device fills the sets
(devices/harness.cu); this module says which bits, and computes the same words for the judge.
"""

from __future__ import annotations

import numpy as np

from astra_kernels.jobs.inputs import Inputs
from astra_kernels.jobs.spec import JobSpec, TensorSpec, WorkloadSpec
from astra_kernels.records.dtypes import dtype_bytes, is_floating

_SYMMETRIC = frozenset({None, "normal", "uniform", "large", "small", "denormal", "ties"})
"""Distributions, None being the default, in which a value is as likely as its negative."""
_GOLDEN, _FIRST, _SECOND = 0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB


def flips_of(spec: JobSpec, workload: WorkloadSpec, inputs: Inputs) -> dict[str, int]:
    """For each input tensor the bits of a 64-bit word that may be turned over; no entry for none.

    Integers, booleans and tensors with an infinity or a NaN stay as they are.
    """
    flips: dict[str, int] = {}
    for tensor in spec.inputs:
        values = inputs.get(tensor.name)
        if not isinstance(values, np.ndarray) or not is_floating(tensor.dtype):
            continue
        if values.dtype.itemsize == 1 or np.isfinite(values).all():
            flips[tensor.name] = _bits(tensor, workload)
    return flips


def _bits(tensor: TensorSpec, workload: WorkloadSpec) -> int:
    """The sign, or the last bit, of every element in a word of eight bytes."""
    source = workload.inputs[tensor.name]
    width = 8 * dtype_bytes(tensor.dtype)
    symmetric = source.type == "random" and source.distribution in _SYMMETRIC
    bit = 1 << (width - 1) if symmetric else 1
    if width == 8 and not symmetric:
        return 0  # a step of an 8-bit float may be its NaN
    return sum(bit << at for at in range(0, 64, width))


def flip_image(size: int, spans: list[tuple[slice, int]]) -> np.ndarray:
    """Bytes of an image with a 1 for each bit that may be turned over; spans start at multiples of 8.

    Args:
        size: bytes of the image.
        spans: where each tensor lies, and the bits of its words. An incomplete last word stays as it is.
    """
    image = np.zeros(size, np.uint8)
    for span, bits in spans:
        whole = slice(span.start, span.start + (span.stop - span.start) // 8 * 8)
        image[whole].view(np.uint64)[:] = bits
    return image


def turned(image: np.ndarray, flips: np.ndarray, key: int, first: int) -> np.ndarray:
    """The bytes that a set holds before a call.

    Args:
        image: bytes of the master image, a multiple of 8.
        flips: what `flip_image` gives.
        key: of the filling.
        first: number of the set's first 64-bit word in the slab.
    """
    count = image.size // 8
    words = np.arange(first, first + count, dtype=np.uint64)
    return np.asarray(image.view(np.uint64) ^ (flips.view(np.uint64) & _mixed(words, key))).view(
        np.uint8
    )


def _mixed(words: np.ndarray, key: int) -> np.ndarray:
    """splitmix64 of `key` plus each word."""
    x = words + np.uint64((key + _GOLDEN) % 2**64)
    x = (x ^ (x >> np.uint64(30))) * np.uint64(_FIRST)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(_SECOND)
    return np.asarray(x ^ (x >> np.uint64(31)))
