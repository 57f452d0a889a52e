# SPDX-License-Identifier: Apache-2.0
# Copyright: the Astra authors.

import minillm
import pytest
import torch


def silu_and_mul_ref(input):
    x, gate = input.float().chunk(2, dim=-1)
    return (torch.nn.functional.silu(x) * gate).to(input.dtype)


def gelu_tanh_and_mul_ref(input):
    x, gate = input.float().chunk(2, dim=-1)
    return (torch.nn.functional.gelu(x, approximate="tanh") * gate).to(input.dtype)


@pytest.mark.parametrize("num_tokens", [1, 17, 64])
@pytest.mark.parametrize("hidden", [128, 1000, 4096, 11008])
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32])
@pytest.mark.parametrize(
    "function, reference",
    [
        (minillm.silu_and_mul, silu_and_mul_ref),
        (minillm.gelu_tanh_and_mul, gelu_tanh_and_mul_ref),
    ],
)
def test_act_and_mul(num_tokens, hidden, dtype, function, reference):
    torch.manual_seed(num_tokens + hidden)
    input = torch.randn(num_tokens, 2 * hidden, dtype=dtype, device="cuda")
    tolerance = (
        {"rtol": 1e-5, "atol": 1e-5} if dtype == torch.float32 else {"rtol": 1e-2, "atol": 1e-3}
    )
    torch.testing.assert_close(function(input), reference(input), **tolerance)


def test_no_tokens():
    assert minillm.silu_and_mul(torch.empty(0, 256, device="cuda")).shape == (0, 128)


def test_wrong_shapes_are_refused():
    input, out = torch.randn(4, 256, device="cuda"), torch.empty(4, 100, device="cuda")
    with pytest.raises(RuntimeError, match="CHECK_EQ"):
        minillm.silu_and_mul(input, out)


def test_fake_tensors():
    assert torch.compile(minillm.silu_and_mul, backend="eager", fullgraph=True)(
        torch.randn(4, 256, device="cuda")
    ).shape == (4, 128)
