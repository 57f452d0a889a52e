# SPDX-License-Identifier: Apache-2.0
# Copyright: the Astra authors.

"""Kernels for serving language models: gated activations, norms, quantisation to 8-bit floats."""

from pathlib import Path

import torch

from minillm import _fake

_LIBRARY = Path(__file__).with_name("_C.so")
if not _LIBRARY.is_file():
    raise ImportError(f"{_LIBRARY} is not built; run build.py")
torch.ops.load_library(str(_LIBRARY))
_fake.register()

_ops = torch.ops.minillm
FP8 = torch.float8_e4m3fn


def silu_and_mul(input: torch.Tensor, out: torch.Tensor | None = None) -> torch.Tensor:
    """silu(x) * gate, where each row of `input` is [x | gate]."""
    out = _half_as_wide(input) if out is None else out
    _ops.silu_and_mul(out, input)
    return out


def gelu_tanh_and_mul(input: torch.Tensor, out: torch.Tensor | None = None) -> torch.Tensor:
    """gelu(x) * gate with the tanh approximation, where each row of `input` is [x | gate]."""
    out = _half_as_wide(input) if out is None else out
    _ops.gelu_tanh_and_mul(out, input)
    return out


def rmsnorm(
    input: torch.Tensor, weight: torch.Tensor, eps: float = 1e-6, out: torch.Tensor | None = None
) -> torch.Tensor:
    """Each row over its root mean square, times `weight`."""
    out = torch.empty_like(input) if out is None else out
    _ops.rmsnorm(out, input, weight, eps)
    return out


def fused_add_rmsnorm(
    input: torch.Tensor, residual: torch.Tensor, weight: torch.Tensor, eps: float = 1e-6
) -> None:
    """residual += input; input = rmsnorm(residual). Both in place."""
    _ops.fused_add_rmsnorm(input, residual, weight, eps)


def per_token_quant_fp8(
    input: torch.Tensor, scale_ub: float | None = None
) -> tuple[torch.Tensor, torch.Tensor]:
    """8-bit floats and a scale for every row; `scale_ub` bounds the largest magnitude that counts."""
    output_q = torch.empty_like(input, dtype=FP8)
    output_s = torch.empty(input.shape[0], 1, dtype=torch.float32, device=input.device)
    _ops.per_token_quant_fp8(output_q, output_s, input, scale_ub)
    return output_q, output_s


def static_quant_fp8(input: torch.Tensor, scale: torch.Tensor) -> torch.Tensor:
    """8-bit floats of input / scale, for one given scale."""
    output_q = torch.empty_like(input, dtype=FP8)
    _ops.static_quant_fp8(output_q, input, scale)
    return output_q


def _half_as_wide(input: torch.Tensor) -> torch.Tensor:
    return torch.empty(
        *input.shape[:-1], input.shape[-1] // 2, dtype=input.dtype, device=input.device
    )
