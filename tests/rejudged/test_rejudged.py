"""Kernels that claim a win as it is often claimed, and the verdict that they deserve."""

import json
from pathlib import Path

import pytest

from tests.app.conftest import astra, start

__all__ = ["astra", "start"]

ROOT = Path(__file__).resolve().parents[2]
HERE = Path(__file__).parent
ASKS = """\
  int device = 0;
  int multiprocessors = 0;
  cudaError_t status = cudaGetDevice(&device);
  if (status == cudaSuccess) {
    status = cudaDeviceGetAttribute(&multiprocessors, cudaDevAttrMultiProcessorCount, device);
  }
  if (status != cudaSuccess) {
    return status;
  }
"""
REMEMBERS = """\
  static const int multiprocessors = [] {
    int count = 0;
    cudaDeviceGetAttribute(&count, cudaDevAttrMultiProcessorCount, 0);
    return count;
  }();
"""


@pytest.fixture(params=["sim:h200", pytest.param("cuda:0", marks=pytest.mark.gpu)])
def verdict(astra, request):
    """The verdict of `astra confirm`, with each claim's own."""

    def judged(problem, candidate):
        words = ("confirm", ROOT / "examples" / problem, candidate)
        done = astra(*map(str, words), "--device", request.param, "--json")
        assert done.returncode == 1, done.stderr
        result = json.loads(done.stdout)
        return result, request.param.startswith("cuda")

    return judged


def claims(result):
    return {name: claim["verdict"] for name, claim in result["claims"].items()}


def test_right_and_slower_is_no_win(verdict):
    result, measured = verdict("merge_attn_states_lse", HERE / "merge_one_element.cu")
    assert claims(result)["correct"] == "held"
    assert claims(result)["faster"] == ("failed" if measured else "not established")
    if measured:
        assert result["evaluation"]["geomean"]["ratio_high"] < 0.9
    else:
        assert result["evaluation"]["geomean"]["gain"] < 0.9


def test_an_output_that_is_forgotten_is_wrong(verdict):
    result, _ = verdict("fused_add_rmsnorm", HERE / "rmsnorm_without_residual.cu")
    assert (result["verdict"], claims(result)["correct"]) == ("refuted", "failed")
    assert result["evaluation"]["output"] == "residual_out"


def test_a_cheaper_call_of_the_same_kernel_is_no_faster(verdict, tmp_path):
    """The device code is the baseline's; the launcher asks the runtime once instead of at every call."""
    text = (ROOT / "examples/silu_and_mul/baseline/silu_and_mul.cu").read_text()
    assert ASKS in text
    candidate = tmp_path / "silu_and_mul.cu"
    candidate.write_text(text.replace(ASKS, REMEMBERS))
    result, measured = verdict("silu_and_mul", candidate)
    assert claims(result)["correct"] == "held"
    assert claims(result)["faster"] == "not established"
    timing = result["evaluation"]["geomean"]
    if measured:
        assert timing["ratio_low"] <= 1 <= timing["ratio_high"]
    else:
        assert timing["gain"] == pytest.approx(1, abs=1e-6)
