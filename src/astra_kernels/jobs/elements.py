"""Element types as NumPy knows them, and what a floating type can hold.

bfloat16 and fp8 come from ml_dtypes, which is imported only by the jobs that use them.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from astra_kernels.errors import SetupError

_FROM_ML_DTYPES = ("bfloat16", "float8_e4m3fn", "float8_e5m2")


@dataclass(frozen=True)
class FloatFormat:
    """A binary floating type: explicit fraction bits, smallest normal exponent, largest finite."""

    fraction_bits: int
    min_exponent: int
    largest: float
    has_infinity: bool = True
    saturates: bool = False
    """Whether conversions to it usually clamp to the largest finite instead of overflowing."""

    @property
    def epsilon(self) -> float:
        """Distance from one to the next larger number."""
        return float(2.0**-self.fraction_bits)

    @property
    def smallest_normal(self) -> float:
        """The smallest positive normal number."""
        return float(2.0**self.min_exponent)


FLOAT_FORMATS = {
    "float64": FloatFormat(52, -1022, float(np.finfo(np.float64).max)),
    "float32": FloatFormat(23, -126, float(np.finfo(np.float32).max)),
    "float16": FloatFormat(10, -14, 65504.0),
    "bfloat16": FloatFormat(7, -126, (2 - 2.0**-7) * 2.0**127),
    "float8_e4m3fn": FloatFormat(3, -6, 448.0, has_infinity=False, saturates=True),
    "float8_e5m2": FloatFormat(2, -14, 57344.0, saturates=True),
}
"""IEEE 754 and, for fp8, the OCP 8-bit floating point specification 1.0."""


def numpy_dtype(name: str) -> np.dtype[np.generic]:
    """The NumPy type of element type `name`.

    Raises:
        SetupError: bfloat16 or fp8 without ml_dtypes.
    """
    if name not in _FROM_ML_DTYPES:
        return np.dtype(name)
    try:
        import ml_dtypes
    except ImportError as error:
        raise SetupError(f"{name} needs the package ml_dtypes: pip install ml_dtypes") from error
    found: np.dtype[np.generic] = np.dtype(getattr(ml_dtypes, name))
    return found


def as_float64(values: np.ndarray) -> np.ndarray:
    """`values` of any floating type as float64; exact."""
    if values.dtype.name == "bfloat16":
        bits = np.asarray(values, order="C").view(np.uint16).astype(np.uint32)
        bits <<= 16
        values = bits.view(np.float32)
    with np.errstate(invalid="ignore"):  # a signalling NaN becomes a quiet one
        return values.astype(np.float64)
