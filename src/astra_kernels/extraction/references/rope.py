"""Rotary position embedding of q and k at given positions, halves rotated (not interleaved), all of the head."""

import numpy as np


def _rotated(x, angles, working):
    cosine, sine = (f(angles).astype(working)[:, None, :] for f in (np.cos, np.sin))
    half = x.shape[-1] // 2
    first, second = x[..., :half].astype(working), x[..., half:].astype(working)
    return np.concatenate([first * cosine - second * sine, second * cosine + first * sine], axis=-1)


def compute(q, k, pos_ids, rope_scale, rope_theta, working):
    half = q.shape[-1] // 2
    frequency = 1 / (rope_scale * float(rope_theta) ** (np.arange(half) / half))
    angles = pos_ids.astype(np.float64)[:, None] * frequency
    return _rotated(q, angles, working), _rotated(k, angles, working)


def inputs(axes, random):
    return {"pos_ids": random.integers(0, 2048, axes["tokens"]).astype(np.int32)}
