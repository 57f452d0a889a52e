"""fused_add_rmsnorm: residual += x, then x = residual / rms(residual) * weight."""

import numpy as np

_ELEMENTS_AT_ONCE = 1 << 20  # per step: bounds the memory of the temporaries


def _fused_add_rmsnorm(x, residual, weight, eps, working, result):
    tokens, hidden = x.shape
    x_out, residual_out = np.empty(x.shape, result), np.empty(x.shape, result)
    scale = weight.astype(working)
    step = max(1, _ELEMENTS_AT_ONCE // max(1, hidden))
    with np.errstate(over="ignore", invalid="ignore"):
        for start in range(0, tokens, step):
            rows = slice(start, start + step)
            total = x[rows].astype(working) + residual[rows].astype(working)
            mean_square = np.mean(total * total, axis=1, keepdims=True)
            x_out[rows] = (total / np.sqrt(mean_square + working(eps)) * scale).astype(result)
            residual_out[rows] = total.astype(result)
    return x_out, residual_out


def run(x, residual, weight, eps):
    """float32 arithmetic, each output rounded once to the element type."""
    return _fused_add_rmsnorm(x, residual, weight, eps, np.float32, x.dtype)


def reference_fp64(x, residual, weight, eps):
    """The same in float64 throughout; eps is the float32 number that the kernel receives."""
    return _fused_add_rmsnorm(x, residual, weight, np.float32(eps), np.float64, np.float64)
