# SPDX-License-Identifier: Apache-2.0
# Copyright: the Astra authors.

import minillm
import pytest
import torch


def rmsnorm_ref(x, weight, eps):
    wide = x.float()
    scale = torch.rsqrt(wide.pow(2).mean(dim=-1, keepdim=True) + eps)
    return (wide * scale * weight.float()).to(x.dtype)


TOLERANCE = {
    torch.float16: {"rtol": 2e-3, "atol": 2e-3},
    torch.bfloat16: {"rtol": 2e-2, "atol": 2e-2},
    torch.float32: {"rtol": 1e-5, "atol": 1e-5},
}


@pytest.mark.parametrize("num_tokens", [1, 19, 99])
@pytest.mark.parametrize("hidden_size", [256, 1032, 4096, 8192])
@pytest.mark.parametrize("dtype", list(TOLERANCE))
def test_rmsnorm(num_tokens, hidden_size, dtype):
    torch.manual_seed(num_tokens + hidden_size)
    x = torch.randn(num_tokens, hidden_size, dtype=dtype, device="cuda")
    weight = torch.randn(hidden_size, dtype=dtype, device="cuda")
    torch.testing.assert_close(
        minillm.rmsnorm(x, weight, 1e-6), rmsnorm_ref(x, weight, 1e-6), **TOLERANCE[dtype]
    )


@pytest.mark.parametrize("num_tokens", [1, 19, 99])
@pytest.mark.parametrize("hidden_size", [256, 1032, 4096, 16384])
@pytest.mark.parametrize("dtype", list(TOLERANCE))
def test_fused_add_rmsnorm(num_tokens, hidden_size, dtype):
    torch.manual_seed(num_tokens + hidden_size)
    x = torch.randn(num_tokens, hidden_size, dtype=dtype, device="cuda")
    residual = torch.randn_like(x)
    weight = torch.randn(hidden_size, dtype=dtype, device="cuda")
    sum_ = x.float() + residual.float()
    wanted = rmsnorm_ref(sum_, weight, 1e-6).to(dtype)
    minillm.fused_add_rmsnorm(x, residual, weight, 1e-6)
    torch.testing.assert_close(residual, sum_.to(dtype), rtol=0, atol=0)
    torch.testing.assert_close(x, wanted, **TOLERANCE[dtype])


def test_rows_that_are_no_multiple_of_16_bytes_are_refused():
    x = torch.randn(2, 100, dtype=torch.float16, device="cuda")
    with pytest.raises(RuntimeError, match="multiple"):
        minillm.rmsnorm(x, x[0].clone())
