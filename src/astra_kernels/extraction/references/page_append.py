"""Keys and values appended to a paged cache [pages, page_size, heads, head_dim]; all other entries stay."""

import numpy as np


def compute(working, **given):
    keys, values = given["paged_k_cache"].copy(), given["paged_v_cache"].copy()
    size, positions = keys.shape[1], given["positions"]
    pages = given["kv_indices"][given["kv_indptr"][given["batch_indices"]] + positions // size]
    keys[pages, positions % size] = given["append_key"]
    values[pages, positions % size] = given["append_value"]
    return keys, values


def inputs(axes, random):
    batch, tokens, size = axes["batch"], axes["tokens"], axes["page_size"]
    each = -(-axes["pages"] // batch)
    indptr = np.minimum(np.arange(batch + 1) * each, axes["pages"]).astype(np.int32)
    slots = [(b, p) for b in range(batch) for p in range((indptr[b + 1] - indptr[b]) * size)]
    chosen = random.permutation(len(slots))[:tokens]
    taken = np.array([slots[i] for i in chosen], dtype=np.int32).reshape(-1, 2)
    return {
        "batch_indices": taken[:, 0].copy(),
        "positions": taken[:, 1].copy(),
        "kv_indices": random.permutation(axes["pages"]).astype(np.int32),
        "kv_indptr": indptr,
        "kv_last_page_len": np.full(batch, size, np.int32),
    }
