"""merge_attn_states_lse: two attention states over disjoint keys become one (log-sum-exps in base 2)."""

import numpy as np

_ELEMENT = np.float16
_ELEMENTS_AT_ONCE = 1 << 20  # of `v_a`, per step: bounds the memory of the temporaries


def _merge(v_a, s_a, v_b, s_b, working, result, lse):
    seq_len, num_heads, head_dim = v_a.shape
    v_merged, s_merged = np.empty(v_a.shape, result), np.empty(s_a.shape, lse)
    step = max(1, _ELEMENTS_AT_ONCE // max(1, num_heads * head_dim))
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        for start in range(0, seq_len, step):
            rows = slice(start, start + step)
            a, b = s_a[rows].astype(working), s_b[rows].astype(working)
            top = np.maximum(a, b)
            empty = np.isneginf(top)  # both sides: V = 0, S = -inf
            shift = np.where(empty, working(0), top)
            weight_a, weight_b = np.exp2(a - shift), np.exp2(b - shift)
            total = weight_a + weight_b
            divisor = np.where(empty, working(1), total)
            v_merged[rows] = (
                (weight_a / divisor)[..., None] * v_a[rows].astype(working)
                + (weight_b / divisor)[..., None] * v_b[rows].astype(working)
            ).astype(result)
            s_merged[rows] = (np.log2(total) + shift).astype(lse)
    return v_merged, s_merged


def run(v_a, s_a, v_b, s_b):
    """float32 arithmetic; V rounded once to the element type, S in float32."""
    return _merge(v_a, s_a, v_b, s_b, np.float32, v_a.dtype, np.float32)


def reference_fp64(v_a, s_a, v_b, s_b):
    """The same in float64 throughout."""
    return _merge(v_a, s_a, v_b, s_b, np.float64, np.float64, np.float64)


def make_inputs(axes, device):
    """Values as in serving: a log-sum-exp over a few hundred keys or more, about 10, and now and then a special case.

    Of every 97 states one has side a empty, one side b, one both; one pair lies 200 apart, one is equal.
    The two sides agree in sign, so that no sum cancels and an error in ulps tells something about the kernel.
    """
    random = np.random.default_rng(np.random.randint(1 << 31))
    states = (axes["seq_len"], axes["num_heads"])
    shape = (*states, axes["head_dim"])
    s_a = random.normal(10, 2, states).astype(np.float32)
    s_b = random.normal(10, 2, states).astype(np.float32)
    flat_a, flat_b = s_a.reshape(-1), s_b.reshape(-1)
    flat_b[11::97] = flat_a[11::97] - 200
    flat_b[13::97] = flat_a[13::97]
    flat_a[3::97] = flat_a[7::97] = -np.inf
    flat_b[5::97] = flat_b[7::97] = -np.inf
    v_a = random.standard_normal(shape, dtype=np.float32)
    v_b = np.copysign(random.standard_normal(shape, dtype=np.float32), v_a)
    return {"v_a": v_a.astype(_ELEMENT), "s_a": s_a, "v_b": v_b.astype(_ELEMENT), "s_b": s_b}
