"""The references agree with formulas written out by hand, at every rounding they promise."""

import math

import numpy as np
import pytest
from example_problems import (
    ELEMENT,
    NAMES,
    OPERATORS,
    as_tuple,
    definition_of,
    inputs_of,
    reference_of,
    small_workload,
    workloads_of,
)
from hypothesis import given, settings
from hypothesis import strategies as st

from astra_kernels.jobs.ulps import float_errors

OWN = [n for n in NAMES if not n.startswith("flashinfer")]
SMALL = {
    "silu": {"tokens": 5, "hidden": 37},
    "rmsnorm": {"tokens": 5, "hidden": 37},
    "merge": {"seq_len": 5, "num_heads": 64, "head_dim": 64},
}
every_name = pytest.mark.parametrize("name", NAMES)


def silu_by_hand(input):
    tokens, hidden = input.shape[0], input.shape[1] // 2
    out = np.empty((tokens, hidden))
    for t in range(tokens):
        for i in range(hidden):
            x, gate = float(input[t, i]), float(input[t, hidden + i])
            out[t, i] = x / (1 + math.exp(-x)) * gate
    return (out,)


def rmsnorm_by_hand(x, residual, weight, eps):
    tokens, hidden = x.shape
    x_out, residual_out = np.empty(x.shape), np.empty(x.shape)
    for t in range(tokens):
        sums = [float(x[t, i]) + float(residual[t, i]) for i in range(hidden)]
        rms = math.sqrt(math.fsum(s * s for s in sums) / hidden + eps)
        for i in range(hidden):
            x_out[t, i] = sums[i] / rms * float(weight[i])
            residual_out[t, i] = sums[i]
    return x_out, residual_out


def merge_by_hand(v_a, s_a, v_b, s_b):
    v, s = np.empty(v_a.shape), np.empty(s_a.shape)
    for state in np.ndindex(*s_a.shape):
        weight_a, weight_b = 2.0 ** float(s_a[state]), 2.0 ** float(s_b[state])
        total = weight_a + weight_b
        s[state] = math.log2(total) if total else -math.inf
        for i in range(v_a.shape[2]):
            a, b = float(v_a[state][i]), float(v_b[state][i])
            v[state][i] = (weight_a * a + weight_b * b) / total if total else 0.0
    return v, s


BY_HAND = {"silu": silu_by_hand, "rmsnorm": rmsnorm_by_hand, "merge": merge_by_hand}


@every_name
def test_float64_is_the_formula_written_out(name):
    inputs = inputs_of(name, small_workload(name, **SMALL[OPERATORS[name]]))
    by_hand = BY_HAND[OPERATORS[name]](*inputs.values())
    for got, want in zip(
        as_tuple(reference_of(name).reference_fp64(*inputs.values())), by_hand, strict=True
    ):
        assert got.dtype == np.float64
        np.testing.assert_allclose(got, want, rtol=1e-12, atol=1e-15)


@pytest.mark.parametrize("name", OWN)
@settings(max_examples=20, deadline=None)
@given(
    outer=st.integers(1, 4), middle=st.integers(1, 4), inner=st.integers(1, 33), seed=st.integers(0)
)
def test_float64_is_the_formula_at_any_size(name, outer, middle, inner, seed):
    sizes = (outer, middle, inner) if OPERATORS[name] == "merge" else (outer, inner)
    axes = dict(zip(SMALL[OPERATORS[name]], sizes, strict=True))
    inputs = inputs_of(name, small_workload(name, **axes), seed % 2**32)
    by_hand = BY_HAND[OPERATORS[name]](*inputs.values())
    for got, want in zip(
        as_tuple(reference_of(name).reference_fp64(*inputs.values())), by_hand, strict=True
    ):
        np.testing.assert_allclose(got, want, rtol=1e-12, atol=1e-15)


@every_name
def test_run_rounds_once(name):
    """Nearly every element is float64's answer rounded; a few lie next to a tie, or come from sums that cancel."""
    definition, reference = definition_of(name), reference_of(name)
    for workload in [w for w in workloads_of(name) if math.prod(w.axes.values()) < 1 << 20]:
        inputs = inputs_of(name, workload)
        results = zip(
            as_tuple(reference.run(*inputs.values())),
            as_tuple(reference.reference_fp64(*inputs.values())),
            definition.outputs.values(),
            strict=True,
        )
        for got, want, output in results:
            assert got.dtype == ELEMENT.get(output.dtype, np.dtype(np.float32))
            errors = float_errors(got.reshape(-1), want.reshape(-1), output.dtype, None)
            assert not errors.misplaced
            if output.dtype in ELEMENT:
                assert errors.max_ulp < 1 and errors.mismatches <= 0.01 * errors.elements
            else:
                assert errors.max_ulp < 2


@every_name
def test_inputs_stay_as_they_are_and_outputs_are_new(name):
    inputs = inputs_of(name, small_workload(name, **SMALL[OPERATORS[name]]))
    arrays = [v for v in inputs.values() if isinstance(v, np.ndarray)]
    before = [a.tobytes() for a in arrays]
    module = reference_of(name)
    for function in (module.run, module.reference_fp64):
        for output in as_tuple(function(*inputs.values())):
            assert not any(np.shares_memory(output, a) for a in arrays)
    assert [a.tobytes() for a in arrays] == before


@every_name
def test_the_answer_does_not_depend_on_the_step(name):
    inputs = inputs_of(name, small_workload(name, **SMALL[OPERATORS[name]]))
    whole, stepped = reference_of(name), reference_of(name)
    stepped._ELEMENTS_AT_ONCE = 1
    for a, b in zip(
        as_tuple(whole.run(*inputs.values())), as_tuple(stepped.run(*inputs.values())), strict=True
    ):
        assert a.tobytes() == b.tobytes()


@pytest.mark.parametrize("name", [n for n in NAMES if OPERATORS[n] == "merge"])
def test_merge_inputs_hold_every_special_case(name):
    inputs = inputs_of(name, small_workload(name, seq_len=33, num_heads=8, head_dim=64))
    a, b = np.isneginf(inputs["s_a"]), np.isneginf(inputs["s_b"])
    assert (a & ~b).any() and (b & ~a).any() and (a & b).any() and (~a & ~b).any()
    v, s = reference_of(name).run(*inputs.values())
    assert (v[a & b] == 0).all() and np.isneginf(s[a & b]).all()
    np.testing.assert_array_equal(v[a & ~b], inputs["v_b"][a & ~b])
    np.testing.assert_array_equal(s[b & ~a], inputs["s_a"][b & ~a])


def test_silu_survives_where_exp_overflows():
    module = reference_of("silu_and_mul")
    row = np.array([[-60000, 60000, -90, 2, 3, 4]], np.float16)
    np.testing.assert_array_equal(module.run(row), np.array([[0, np.inf, 0]], np.float16))


@pytest.mark.parametrize("eps", [1e-6, 0.25])
def test_eps_and_weight_matter_in_rmsnorm(eps):
    inputs = inputs_of(
        "fused_add_rmsnorm", small_workload("fused_add_rmsnorm", tokens=2, hidden=64)
    )
    module = reference_of("fused_add_rmsnorm")
    inputs["eps"] = eps
    got, _ = module.reference_fp64(*inputs.values())
    inputs["eps"] = 2 * eps
    other, _ = module.reference_fp64(*inputs.values())
    ratio = float(np.max(np.abs(got / other - 1)))
    assert 1e-8 < ratio < 1


@pytest.mark.full
@every_name
def test_every_workload_has_a_finite_answer(name):
    reference = reference_of(name)
    for workload in workloads_of(name):
        if math.prod(workload.axes.values()) > 1 << 25:
            continue
        outputs = as_tuple(reference.run(*inputs_of(name, workload).values()))
        assert np.isfinite(outputs[0].astype(np.float32)).all()
