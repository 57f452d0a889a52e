"""residual += input, then RMS norm of the sum (before it is rounded) in place of the input; weights + 1 for Gemma's."""

import numpy as np


def compute(input, residual, weight, eps, working, *, bias):
    total = input.astype(working) + residual.astype(working)
    scale = 1 / np.sqrt(np.mean(total * total, axis=-1, keepdims=True) + working(eps))
    return total * scale * (weight.astype(working) + working(bias)), total
