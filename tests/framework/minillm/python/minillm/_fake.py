# SPDX-License-Identifier: Apache-2.0
# Copyright: the Astra authors.

"""What the operators do to tensors without data, for torch.compile: they write into what they are given."""

import torch

_NAMES = (
    "silu_and_mul",
    "gelu_tanh_and_mul",
    "rmsnorm",
    "fused_add_rmsnorm",
    "per_token_quant_fp8",
    "static_quant_fp8",
)


def register() -> None:
    """Registers the fake implementations; the library has to be loaded."""
    for name in _NAMES:
        torch.library.register_fake(f"minillm::{name}")(_nothing)


def _nothing(*tensors: object, **more: object) -> None:
    return None
