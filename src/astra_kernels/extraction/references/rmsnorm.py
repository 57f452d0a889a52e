"""RMS norm over the last axis: out = x / sqrt(mean(x^2) + eps) * (weight + bias), bias 1 for Gemma's."""

import numpy as np


def compute(input, weight, eps, working, *, bias):
    x = input.astype(working)
    scale = 1 / np.sqrt(np.mean(x * x, axis=-1, keepdims=True) + working(eps))
    return (x * scale * (weight.astype(working) + working(bias)),)
