"""silu_and_mul: out = silu(x) * gate for rows [x | gate]."""

import numpy as np

_ELEMENTS_AT_ONCE = 1 << 20  # of `out`, per step: bounds the memory of the temporaries


def _silu_and_mul(input, working, result):
    tokens, two_hidden = input.shape
    hidden = two_hidden // 2
    out = np.empty((tokens, hidden), result)
    step = max(1, _ELEMENTS_AT_ONCE // max(1, hidden))
    with np.errstate(over="ignore", invalid="ignore"):  # exp(-x) may be inf: silu is then 0
        for start in range(0, tokens, step):
            rows = input[start : start + step].astype(working)
            x, gate = rows[:, :hidden], rows[:, hidden:]
            out[start : start + step] = (x / (1 + np.exp(-x)) * gate).astype(result)
    return out


def run(input):
    """float32 arithmetic, rounded once to the element type."""
    return _silu_and_mul(input, np.float32, input.dtype)


def reference_fp64(input):
    """The same in float64 throughout."""
    return _silu_and_mul(input, np.float64, np.float64)
