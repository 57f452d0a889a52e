"""Rotary position embedding of q and k from a table of cosines and sines, halves rotated (not interleaved)."""

import numpy as np


def _rotated(x, cosine, sine, working):
    half = cosine.shape[-1]
    first, second = x[..., :half].astype(working), x[..., half : 2 * half].astype(working)
    turned = [first * cosine - second * sine, second * cosine + first * sine]
    return np.concatenate([*turned, x[..., 2 * half :].astype(working)], axis=-1)


def compute(q, k, cos_sin_cache, pos_ids, working):
    rows = cos_sin_cache[pos_ids].astype(working)[:, None, :]
    half = rows.shape[-1] // 2
    cosine, sine = rows[..., :half], rows[..., half:]
    return _rotated(q, cosine, sine, working), _rotated(k, cosine, sine, working)


def inputs(axes, random):
    rows, half = axes["positions"], axes["head_dim"] // 2
    angles = np.arange(rows)[:, None] / 10000.0 ** (np.arange(half) / half)
    table = np.concatenate([np.cos(angles), np.sin(angles)], axis=1).astype(np.float32)
    return {
        "cos_sin_cache": table,
        "pos_ids": random.integers(0, rows, axes["tokens"]).astype(np.int32),
    }
