# SPDX-License-Identifier: Apache-2.0
# Copyright: the Astra authors.

import minillm
import pytest
import torch

FP8_MAX = 448.0


def torch_per_token_quant_fp8(x, scale_ub=None):
    largest = x.float().abs().amax(dim=-1, keepdim=True)
    if scale_ub is not None:
        largest = largest.clamp(max=scale_ub)
    scale = (largest / FP8_MAX).clamp(min=1.0 / (FP8_MAX * 512.0))
    return (x.float() / scale).clamp(-FP8_MAX, FP8_MAX).to(torch.float8_e4m3fn), scale


def close(found, wanted):
    """Within one step of the 8-bit type; in float32 the two may divide differently."""
    torch.testing.assert_close(found.float(), wanted.float(), rtol=0.13, atol=2e-3)
    assert (found.view(torch.uint8) != wanted.view(torch.uint8)).float().mean() < 0.01


@pytest.mark.parametrize("num_tokens", [1, 13, 96])
@pytest.mark.parametrize("hidden_dim", [64, 1368, 4096])
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32])
@pytest.mark.parametrize("scale_ub", [None, 1.5])
def test_per_token_quant_fp8(num_tokens, hidden_dim, dtype, scale_ub):
    torch.manual_seed(num_tokens + hidden_dim)
    x = torch.randn(num_tokens, hidden_dim, dtype=dtype, device="cuda")
    quantised, scale = minillm.per_token_quant_fp8(x, scale_ub)
    wanted, wanted_scale = torch_per_token_quant_fp8(x, scale_ub)
    torch.testing.assert_close(scale, wanted_scale, rtol=1e-6, atol=0)
    close(quantised, wanted)


@pytest.mark.parametrize("num_tokens", [1, 13, 96])
@pytest.mark.parametrize("hidden_dim", [64, 1368, 4096])
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32])
def test_static_quant_fp8(num_tokens, hidden_dim, dtype):
    torch.manual_seed(num_tokens + hidden_dim)
    x = torch.randn(num_tokens, hidden_dim, dtype=dtype, device="cuda")
    scale = torch.tensor([0.01], device="cuda")
    wanted = (x.float() / scale).clamp(-FP8_MAX, FP8_MAX).to(torch.float8_e4m3fn)
    close(minillm.static_quant_fp8(x, scale), wanted)
