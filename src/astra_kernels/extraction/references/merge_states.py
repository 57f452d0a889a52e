"""Several attention states over disjoint keys become one; s is a log-sum-exp in base 2, states lie along axis 1."""

import numpy as np


def compute(v, s, working):
    scores = s.astype(working)
    top = np.max(scores, axis=1, keepdims=True)
    weights = np.exp2(scores - top)
    total = np.sum(weights, axis=1, keepdims=True)
    merged = np.sum((weights / total)[..., None] * v.astype(working), axis=1)
    return merged, (np.log2(total) + top)[:, 0]
