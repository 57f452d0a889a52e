"""Layer norm over the last axis: out = (x - mean) / sqrt(variance + eps) * gamma + beta."""

import numpy as np


def compute(input, gamma, beta, eps, working):
    x = input.astype(working)
    centred = x - np.mean(x, axis=-1, keepdims=True)
    variance = np.mean(centred * centred, axis=-1, keepdims=True)
    scaled = centred / np.sqrt(variance + working(eps))
    return (scaled * gamma.astype(working) + beta.astype(working),)
