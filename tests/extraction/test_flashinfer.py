"""Operators of different kinds out of FlashInfer's wheel, with no hand edits."""

import pytest

from astra_kernels.errors import UserError
from astra_kernels.extraction.extract import Wanted, extract
from tests.tiers import with_sample

pytestmark = [pytest.mark.flashinfer, pytest.mark.tvm_ffi]


@pytest.mark.parametrize(
    "symbol",
    with_sample(
        (
            "gelu_and_mul",
            "layernorm",
            "rmsnorm",
            "fused_add_rmsnorm",
            "merge_state",
            "apply_rope_pos_ids",
            "packbits",
            "append_paged_kv_cache",
        ),
        4,
    ),
)
def test_a_problem_that_verifies(symbol, tmp_path, build_cache):
    made = extract(Wanted(symbol, "flashinfer", tmp_path / "made", cache=build_cache))
    assert made.trial.passed, made.trial.said
    assert not made.own_oracle, made.notes
    text = (made.directory / "PROVENANCE.md").read_text()
    assert "flashinfer" in text and "commit" in text


def test_sampling_says_that_it_needs_curand(tmp_path):
    with pytest.raises(UserError, match="cuRAND"):
        extract(Wanted("sampling_from_probs", "flashinfer", tmp_path / "made"))
    assert not (tmp_path / "made").exists()
