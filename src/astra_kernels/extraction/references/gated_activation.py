"""Gated activation: out = f(x) * gate, where each row of the input is [x | gate]."""

import math

import numpy as np

_erf = np.vectorize(math.erf, otypes=[np.float64])


def _activated(x, function):
    if function == "silu":
        return x / (1 + np.exp(-x))
    if function == "gelu":
        return x * 0.5 * (1 + _erf(x * math.sqrt(0.5)).astype(x.dtype))
    inner = x.dtype.type(math.sqrt(2 / math.pi)) * (x + x.dtype.type(0.044715) * x * x * x)
    return x * x.dtype.type(0.5) * (1 + np.tanh(inner))


def compute(input, working, *, function):
    half = input.shape[-1] // 2
    values = input.astype(working)
    with np.errstate(over="ignore", invalid="ignore"):
        return (_activated(values[..., :half], function) * values[..., half:],)
