"""Two attention states over disjoint keys become one; s is a log-sum-exp in base 2."""

import numpy as np


def compute(v_a, s_a, v_b, s_b, working):
    a, b = s_a.astype(working), s_b.astype(working)
    top = np.maximum(a, b)
    weight_a, weight_b = np.exp2(a - top), np.exp2(b - top)
    total = weight_a + weight_b
    merged = (weight_a / total)[..., None] * v_a.astype(working)
    merged = merged + (weight_b / total)[..., None] * v_b.astype(working)
    return merged, np.log2(total) + top
