"""Of every row of probabilities the k largest, divided by their sum; the others become 0."""

import numpy as np


def compute(probs, top_k, working):
    p = probs.astype(working)
    k = min(int(top_k), p.shape[-1])
    pivot = np.partition(p, -k, axis=-1)[:, -k, None]
    kept = np.where(p >= pivot, p, working(0))
    return (kept / np.sum(kept, axis=-1, keepdims=True),)


def inputs(axes, random):
    weights = random.permuted(
        np.tile(np.arange(1, axes["vocab"] + 1.0), (axes["batch"], 1)), axis=1
    )
    return {"probs": (weights / weights.sum(axis=1, keepdims=True)).astype(np.float32)}
