"""The judge against errors computed another way, and its rules one by one."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from astra_kernels.jobs.elements import as_float64, numpy_dtype
from astra_kernels.jobs.judge import Yardstick, judge, values_of
from astra_kernels.jobs.spec import TensorSpec, ToleranceSpec
from astra_kernels.jobs.ulps import ULP_CAP
from astra_kernels.records.evaluation import OutputAccuracy

ALONE = Yardstick(None, None)
NARROW = ("float16", "bfloat16", "float8_e4m3fn", "float8_e5m2")


def output(dtype="float16", compare="float"):
    return TensorSpec(name="y", dtype=dtype, shape=("n",), compare=compare)


def accuracy(max_ulp=0.5, rms_ulp=0.3, mismatches=0, elements=8):
    return OutputAccuracy(
        output="y",
        max_ulp=max_ulp,
        rms_ulp=rms_ulp,
        mismatches=mismatches,
        elements=elements,
        max_abs=0.0,
    )


def held_to(tolerance=None, **known):
    return Yardstick(accuracy(**known), tolerance)


def compare(got, want, dtype="float16", yardstick=ALONE, kind="float"):
    got = np.asarray(got, numpy_dtype(dtype))
    wide = np.float64 if dtype.startswith(("float", "bfloat")) else got.dtype
    return judge(output(dtype, kind), got, np.asarray(want, wide), yardstick)


def finite_values(dtype):
    """Every finite non-negative number of a type of at most 16 bits, from its bit patterns."""
    width = numpy_dtype(dtype).itemsize
    raw = np.arange(256**width, dtype=f"uint{8 * width}").view(numpy_dtype(dtype))
    values = as_float64(raw)
    return np.unique(np.abs(values[np.isfinite(values)]))


TABLES = {dtype: finite_values(dtype) for dtype in NARROW}


def ulp_by_table(dtype, value):
    """The gap between the neighbours around |value|, from the list of all numbers."""
    table = TABLES[dtype]
    above = int(np.searchsorted(table, abs(value), side="right"))
    above = min(max(above, 1), len(table) - 1)
    return Fraction(table[above]) - Fraction(table[above - 1])


@pytest.mark.parametrize("dtype", NARROW)
@given(data=st.data())
@settings(max_examples=200, deadline=None)
def test_ulps_agree_with_the_list_of_all_numbers(dtype, data):
    table = TABLES[dtype]
    largest = float(table[-1])
    want = data.draw(
        st.floats(-largest, largest, allow_nan=False).filter(lambda w: abs(w) < largest)
    )
    got = data.draw(st.sampled_from(table.tolist())) * data.draw(st.sampled_from([1, -1]))
    exact = min(abs(Fraction(got) - Fraction(want)) / ulp_by_table(dtype, want), ULP_CAP)
    found = compare([got], [want], dtype).accuracy
    assert found.max_ulp == pytest.approx(float(exact), rel=1e-12)
    rounded = float(np.float64(want).astype(numpy_dtype(dtype)))
    assert found.mismatches == (got != rounded)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@given(bits=st.integers(0, 2**63 - 1), steps=st.integers(-1000, 1000))
@settings(max_examples=300, deadline=None)
def test_steps_between_neighbours_count_as_ulps(dtype, bits, steps):
    width = np.dtype(dtype).itemsize
    kind = {4: np.int32, 8: np.int64}[width]
    start = np.array([bits >> (64 - 8 * width)], kind)
    want = start.view(dtype)
    last = np.array(np.finfo(dtype).max).view(kind)
    got = np.array([min(max(0, int(start[0]) + steps), int(last))], kind).view(dtype)
    if not (np.isfinite(want[0]) and np.isfinite(got[0])):
        return
    distance = abs(Fraction(float(got[0])) - Fraction(float(want[0])))
    exact = distance / Fraction(float(np.spacing(want[0])))
    found = compare(got, want.astype(np.float64), dtype).accuracy
    assert found.max_ulp == pytest.approx(float(exact), rel=1e-12)


def test_rms_is_over_all_elements():
    eps = 2.0**-10
    found = compare([1.0, 1.0, 1.0, 1.0], [1.0, 1.0 + eps, 1.0 - eps / 2, 1.0]).accuracy
    assert found.rms_ulp == pytest.approx(np.sqrt((1 + 1) / 4))
    assert found.max_ulp == 1
    assert found.mismatches == 2


class TestBaselineRule:
    def test_one_ulp_is_always_allowed(self):
        assert (
            compare([1.0 + 2.0**-10] + [1.0] * 99, [1.0] * 100, yardstick=held_to()).broken_rule
            is None
        )

    def test_twice_the_baselines_largest_error_is_allowed_and_no_more(self):
        want = np.ones(1000)
        got = np.ones(1000)
        got[7] = 1 + 4 * 2.0**-10
        assert compare(got, want, yardstick=held_to(max_ulp=2.0)).broken_rule is None
        broken = compare(got, want, yardstick=held_to(max_ulp=1.9))
        assert "4 ulp" in broken.broken_rule
        assert broken.index == (7,)

    def test_rms_error_may_not_grow(self):
        want = np.ones(100)
        got = np.full(100, 1 + 2.0**-10)
        assert "RMS" in compare(got, want, yardstick=held_to(rms_ulp=0.3)).broken_rule
        assert compare(got, want, yardstick=held_to(rms_ulp=0.8)).broken_rule is None

    def test_the_tolerance_holds_as_well(self):
        tight = ToleranceSpec(max_atol=1e-6, max_rtol=0, required_matched_ratio=1.0)
        broken = compare([1.0 + 2.0**-10], [1.0], yardstick=held_to(tight, max_ulp=9, rms_ulp=9))
        assert "tolerance" in broken.broken_rule

    def test_matched_ratio_leaves_room(self):
        loose = ToleranceSpec(max_atol=1e-6, max_rtol=0, required_matched_ratio=0.5)
        got, want = [1.0, 1.0 + 2.0**-10], [1.0, 1.0]
        assert compare(got, want, yardstick=held_to(loose, rms_ulp=1)).broken_rule is None

    def test_the_cap_holds_whatever_the_ratio(self):
        capped = ToleranceSpec(
            max_atol=1, max_rtol=1, required_matched_ratio=0.0, max_error_cap=0.5
        )
        assert "caps" in compare([3.0], [1.0], yardstick=Yardstick(None, capped)).broken_rule


class TestSpecialValues:
    inf, nan = np.inf, np.nan

    @pytest.mark.parametrize(
        ("got", "want"),
        [(nan, 1.0), (1.0, nan), (inf, 1.0), (-inf, inf), (inf, nan), (nan, inf), (65504, 1e9)],
    )
    def test_placement_must_agree(self, got, want):
        broken = compare([0.0, got], [0.0, want], yardstick=held_to(max_ulp=1e12, rms_ulp=1e12))
        assert "NaN and infinity" in broken.broken_rule
        assert broken.index == (1,)

    @pytest.mark.parametrize(
        ("got", "want"), [(nan, nan), (inf, inf), (-inf, -inf), (inf, 1e9), (inf, 65520.0)]
    )
    def test_agreement_is_no_error(self, got, want):
        found = compare([got], [want], yardstick=held_to())
        assert found.broken_rule is None
        assert found.accuracy.mismatches == 0

    def test_just_below_overflow_counts_in_ulps(self):
        found = compare(
            [inf_() for _ in range(2)], [65519.0, 65519.0], yardstick=held_to(rms_ulp=1)
        )
        assert found.broken_rule is None
        assert found.accuracy.max_ulp == pytest.approx((65536 - 65519) / 32)

    @pytest.mark.parametrize("got", [448.0, np.nan])
    def test_fp8_may_saturate_or_overflow(self, got):
        assert compare([got], [1000.0], "float8_e4m3fn", held_to()).broken_rule is None

    def test_signed_zeros_are_equal(self):
        assert compare([-0.0], [0.0]).accuracy.mismatches == 0


def inf_():
    return np.inf


class TestAlone:
    def test_a_rounded_result_passes(self):
        want = np.random.default_rng(1).standard_normal(1000)
        for dtype in ("float64", "float32", *NARROW):
            assert compare(want, want, dtype).broken_rule is None

    @pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16", "float8_e4m3fn"])
    def test_a_wrong_result_does_not(self, dtype):
        want = np.random.default_rng(2).standard_normal(1000)
        assert compare(want * 1.5, want, dtype).broken_rule

    def test_sums_that_cancel_are_measured_against_the_largest_value(self):
        want = np.array([1.0, 1e-12])
        assert compare([1.0, 2e-7], want, "float32").broken_rule is None


class TestExactAndQuantised:
    def test_exact_means_every_element(self):
        broken = compare([1, 2, 4], [1, 2, 3], "int32", kind="exact")
        assert "1 of 3" in broken.broken_rule
        assert (broken.index, broken.expected, broken.got) == ((2,), "3", "4")

    def test_a_boolean_is_zero_or_one(self):
        spec = output("bool", "exact")
        got = values_of(np.array([1, 0, 2], np.uint8), spec, (3,))
        assert judge(spec, got, np.array([True, False, True]), ALONE).index == (2,)

    def test_int64_differences_beyond_float64_are_seen(self):
        broken = compare([2**62 + 1], [2**62], "int64", kind="exact")
        assert broken.broken_rule

    def test_quantised_mismatches_are_held_to_the_baseline(self):
        want = np.zeros(20000, np.int8)
        got = want.copy()
        got[:12] = 1
        known = {"max_ulp": 1.0, "mismatches": 10, "elements": 20000}
        assert compare(got, want, "int8", held_to(**known), "quantised").broken_rule is None
        got[12] = 1
        assert "quantised" in compare(got, want, "int8", held_to(**known), "quantised").broken_rule

    def test_a_quantised_byte_may_not_jump(self):
        want = np.zeros(20000, np.int8)
        got = want.copy()
        got[5] = 100
        known = {"max_ulp": 1.0, "mismatches": 10, "elements": 20000}
        assert "steps off" in compare(got, want, "int8", held_to(**known), "quantised").broken_rule

    def test_unsigned_bytes_do_not_wrap_around(self):
        known = {"max_ulp": 1.0, "mismatches": 10, "elements": 20000}
        want = np.zeros(20000, np.uint8)
        got = want.copy()
        got[5] = 255
        found = compare(got, want, "uint8", held_to(**known), "quantised")
        assert "255 steps off" in found.broken_rule
        assert compare([254], [255], "uint8", kind="exact").broken_rule

    def test_a_quantised_word_may_not_jump_either(self):
        want = np.zeros(20000, np.int32)
        got = want.copy()
        got[5] = 123_456_789
        known = {"max_ulp": 1.0, "mismatches": 10, "elements": 20000}
        assert "steps off" in compare(got, want, "int32", held_to(**known), "quantised").broken_rule

    def test_a_quantised_nan_is_misplaced(self):
        want, got = np.zeros(20000), np.zeros(20000, np.float16)
        got[5] = np.nan
        known = {"max_ulp": 1.0, "mismatches": 10, "elements": 20000}
        assert "NaN" in compare(got, want, "float16", held_to(**known), "quantised").broken_rule


def test_empty_outputs_pass():
    assert compare([], []).broken_rule is None


def test_statistics_do_not_depend_on_chunks():
    random = np.random.default_rng(3)
    want = random.standard_normal((3, 200_001))
    got = (want * (1 + 1e-3 * random.standard_normal(want.shape))).astype(np.float16)
    whole = judge(output(), got, want, ALONE).accuracy
    errors = np.abs(got.astype(np.float64) - want)
    errors /= 2.0 ** np.maximum(np.floor(np.log2(np.abs(want))) - 10, -24)
    assert whole.max_ulp == pytest.approx(errors.max())
    assert whole.rms_ulp == pytest.approx(np.sqrt((errors**2).mean()))
