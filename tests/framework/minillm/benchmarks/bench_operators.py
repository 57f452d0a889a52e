# SPDX-License-Identifier: Apache-2.0
# Copyright: the Astra authors.

"""Times every operator beside plain torch: `python benchmarks/bench_operators.py [operator ...]`."""

import sys
from pathlib import Path

import torch

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "python"))
import minillm

NUM_TOKENS = [1, 16, 128, 1024]
HIDDEN_SIZES = [1024, 4096, 8192]


def calls(tokens, hidden):
    """The operators on inputs of one size, by name."""
    x = torch.randn(tokens, hidden, dtype=torch.float16, device="cuda")
    both = torch.randn(tokens, 2 * hidden, dtype=torch.float16, device="cuda")
    weight = torch.randn(hidden, dtype=torch.float16, device="cuda")
    residual, scale = torch.randn_like(x), torch.tensor([0.01], device="cuda")
    return {
        "silu_and_mul": lambda: minillm.silu_and_mul(both),
        "gelu_tanh_and_mul": lambda: minillm.gelu_tanh_and_mul(both),
        "rmsnorm": lambda: minillm.rmsnorm(x, weight),
        "fused_add_rmsnorm": lambda: minillm.fused_add_rmsnorm(x, residual, weight),
        "per_token_quant_fp8": lambda: minillm.per_token_quant_fp8(x),
        "static_quant_fp8": lambda: minillm.static_quant_fp8(x, scale),
    }


def time_us(call, repeats=200):
    """Mean time of a call in microseconds, launches included."""
    for _ in range(20):
        call()
    start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    start.record()
    for _ in range(repeats):
        call()
    end.record()
    end.synchronize()
    return start.elapsed_time(end) * 1e3 / repeats


if __name__ == "__main__":
    for tokens in NUM_TOKENS:
        for hidden in HIDDEN_SIZES:
            for name, call in calls(tokens, hidden).items():
                if len(sys.argv) == 1 or name in sys.argv[1:]:
                    print(f"{name:24} {tokens:6} {hidden:6} {time_us(call):9.2f} us")
