"""The judge: outputs against the oracle, in pure NumPy, outside of every process that runs a candidate.

A floating output is right if its NaNs and infinities are where the oracle's are, its largest error is at
most max(2 x the baseline's, 1) ulp, its RMS error at most 1.25 x the baseline's + 0.1 ulp, and the
problem's tolerance holds. Exact outputs are equal. Quantised outputs differ no more often than the baseline's.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from astra_kernels.jobs.elements import FLOAT_FORMATS, numpy_dtype
from astra_kernels.jobs.spec import TensorSpec, ToleranceSpec
from astra_kernels.jobs.ulps import ErrorSum, float_errors, step_errors
from astra_kernels.records.dtypes import is_floating
from astra_kernels.records.evaluation import OutputAccuracy

MAX_FACTOR, MAX_FLOOR_ULP = 2.0, 1.0
RMS_FACTOR, RMS_SLACK_ULP = 1.25, 0.1
QUANTISED_SLACK = 1e-4
"""Share of a quantised output's elements (at least one) by which its mismatches may exceed the baseline's."""

ALONE_RMS_ULP = {"float64": 64.0, "float32": 64.0}
ALONE_RMS_ULP_NARROW = 2.0
"""What a program judged alone, without a tolerance, may be off by: RMS error in ulps."""
ALONE_EPSILONS = {"float64": 1024.0, "float32": 1024.0, "float16": 4.0, "bfloat16": 4.0}
"""Or, for sums that cancel: largest error over largest wanted value, in epsilons of the type (fp8: 1)."""


@dataclass(frozen=True)
class Comparison:
    """One output compared with the oracle: statistics, and which rule it breaks, if any."""

    accuracy: OutputAccuracy
    broken_rule: str | None
    index: tuple[int, ...]
    """Where the error that broke the rule lies, or the largest error."""
    expected: str
    got: str


@dataclass(frozen=True)
class Yardstick:
    """What an output is held to besides the oracle."""

    baseline: OutputAccuracy | None
    """None when a program is judged alone or the oracle is too coarse for error ratios."""
    tolerance: ToleranceSpec | None


def judge(
    output: TensorSpec, got: np.ndarray, want: np.ndarray, yardstick: Yardstick
) -> Comparison:
    """Judges one output.

    Args:
        output: its name, type and kind of comparison.
        got: the kernel's values, of the output's type (booleans as uint8, so that 2 is not 1).
        want: the oracle's, float64 for floating types and else of the output's type.
        yardstick: the baseline's error and the tolerance.
    """
    flat_got, flat_want = got.reshape(-1), np.ascontiguousarray(want).reshape(-1)
    if output.dtype == "bool":
        flat_want = flat_want.view(np.uint8)
    if is_floating(output.dtype):
        tolerance = yardstick.tolerance
        bounds = None if tolerance is None else (tolerance.max_atol, tolerance.max_rtol)
        errors = float_errors(flat_got, flat_want, output.dtype, bounds)
    else:
        errors = step_errors(flat_got, flat_want)
    accuracy = _accuracy(output.name, errors)
    place, rule = _broken(output, errors, accuracy, yardstick)
    index: tuple[int, ...] = ()
    expected = found = ""
    if errors.elements:
        index = tuple(int(i) for i in np.unravel_index(place, got.shape)) if got.shape else ()
        expected, found = text_of(flat_want[place]), text_of(flat_got[place])
    return Comparison(accuracy, rule, index, expected, found)


def values_of(raw: np.ndarray, output: TensorSpec, shape: tuple[int, ...]) -> np.ndarray:
    """The bytes of a buffer as the output's values; booleans stay bytes."""
    dtype = np.dtype(np.uint8) if output.dtype == "bool" else numpy_dtype(output.dtype)
    return raw.view(dtype).reshape(shape)


def _accuracy(name: str, errors: ErrorSum) -> OutputAccuracy:
    return OutputAccuracy(
        output=name,
        max_ulp=errors.max_ulp,
        rms_ulp=math.sqrt(errors.squares / errors.elements) if errors.elements else 0.0,
        mismatches=errors.mismatches,
        elements=errors.elements,
        max_abs=errors.max_abs,
    )


def _broken(
    output: TensorSpec, errors: ErrorSum, accuracy: OutputAccuracy, yardstick: Yardstick
) -> tuple[int, str | None]:
    """Place and wording of the first broken rule, or the worst place and None."""
    if output.compare == "exact":
        return errors.worst, _exact(accuracy)
    if output.compare == "quantised" and yardstick.baseline is not None:
        if errors.first_misplaced is not None:
            return errors.first_misplaced, _misplaced(errors)
        return errors.worst, _quantised(accuracy, yardstick.baseline)
    if not is_floating(output.dtype):
        return errors.worst, _off_by_more_than_a_step(accuracy)
    if errors.first_misplaced is not None:
        return errors.first_misplaced, _misplaced(errors)
    rule = _beyond_tolerance(errors, yardstick.tolerance)
    if rule is not None:
        place = errors.worst if errors.first_unmatched is None else errors.first_unmatched
        return place, rule
    if yardstick.baseline is not None:
        return errors.worst, _worse_than(accuracy, yardstick.baseline)
    if yardstick.tolerance is None:
        return errors.worst, _wrong_alone(output.dtype, errors, accuracy)
    return errors.worst, None


def _exact(accuracy: OutputAccuracy) -> str | None:
    if not accuracy.mismatches:
        return None
    return f"the output is exact, but {accuracy.mismatches} of {accuracy.elements} elements differ"


def _off_by_more_than_a_step(accuracy: OutputAccuracy) -> str | None:
    if accuracy.max_ulp <= 1:
        return None
    return f"a quantised value is {accuracy.max_ulp:g} steps off; judged alone, one step is allowed"


def _misplaced(errors: ErrorSum) -> str:
    return (
        f"NaN and infinity must be where the oracle has them; {errors.misplaced} elements disagree"
    )


def _quantised(accuracy: OutputAccuracy, baseline: OutputAccuracy) -> str | None:
    allowed = baseline.mismatches + max(1, int(QUANTISED_SLACK * accuracy.elements))
    if accuracy.mismatches > allowed:
        return (
            f"{accuracy.mismatches} of {accuracy.elements} quantised elements differ from the oracle; "
            f"the baseline has {baseline.mismatches}, {allowed} are allowed"
        )
    furthest = max(MAX_FACTOR * baseline.max_ulp, MAX_FLOOR_ULP)
    if accuracy.max_ulp > furthest:
        return f"a quantised element is {accuracy.max_ulp:g} steps off; {furthest:g} are allowed"
    return None


def _beyond_tolerance(errors: ErrorSum, tolerance: ToleranceSpec | None) -> str | None:
    if tolerance is None or not errors.elements:
        return None
    ratio = 1 - errors.unmatched / errors.elements
    if ratio < tolerance.required_matched_ratio:
        return (
            f"{ratio:.6f} of the elements lie within {tolerance.max_atol:g} + {tolerance.max_rtol:g} "
            f"* |expected|; the tolerance wants {tolerance.required_matched_ratio:g}"
        )
    cap = tolerance.max_error_cap
    if cap is not None and errors.max_abs > cap:
        return f"the largest error is {errors.max_abs:g}; the tolerance caps it at {cap:g}"
    return None


def _worse_than(accuracy: OutputAccuracy, baseline: OutputAccuracy) -> str | None:
    furthest = max(MAX_FACTOR * baseline.max_ulp, MAX_FLOOR_ULP)
    if accuracy.max_ulp > furthest:
        return (
            f"the largest error is {accuracy.max_ulp:.4g} ulp; the baseline's is {baseline.max_ulp:.4g}, "
            f"{furthest:.4g} are allowed"
        )
    rms = RMS_FACTOR * baseline.rms_ulp + RMS_SLACK_ULP
    if accuracy.rms_ulp > rms:
        return (
            f"the RMS error is {accuracy.rms_ulp:.4g} ulp; the baseline's is {baseline.rms_ulp:.4g}, "
            f"{rms:.4g} are allowed"
        )
    return None


def _wrong_alone(dtype: str, errors: ErrorSum, accuracy: OutputAccuracy) -> str | None:
    rms = ALONE_RMS_ULP.get(dtype, ALONE_RMS_ULP_NARROW)
    epsilons = ALONE_EPSILONS.get(dtype, 1.0)
    if accuracy.rms_ulp <= rms:
        return None
    if errors.max_abs <= epsilons * FLOAT_FORMATS[dtype].epsilon * errors.max_want:
        return None
    return (
        f"the RMS error is {accuracy.rms_ulp:.4g} ulp ({rms:g} are allowed without a tolerance) and the "
        f"largest error exceeds {epsilons:g} epsilons of the largest expected value"
    )


def text_of(value: np.generic) -> str:
    """One element as text."""
    if value.dtype.kind in "iub":
        return str(int(value))
    return f"{float(value):.9g}"
