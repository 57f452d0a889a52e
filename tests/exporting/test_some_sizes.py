"""A candidate that is not faster over all sizes is exported for those at which it is, and the patch says so."""

import json

import pytest

from astra_kernels.app.runs import read_run
from astra_kernels.errors import NothingToExport
from tests.exporting import scale as sources
from tests.exporting.conftest import measured
from tests.exporting.test_refusals import rewritten

RATIOS = {"4x8192": 0.8, "16x8192": 1.3, "64x8192": 1.6, "64x16": 0.5, "7x1001": 0.7}


def partial(scale, *, control=1.0, **ratios):
    """The run, as if its candidate had been measured to be slower over all, with a control of that ratio or none."""
    evaluation = read_run(scale / "run").history.remeasured[0].evaluation
    even = measured(evaluation, dict.fromkeys(RATIOS, control or 1.0), low=0.99, mean=control)
    rewritten(
        scale, sources.EDITS, lambda e: measured(e, {**RATIOS, **ratios}, low=0.99, mean=0.9),
        control=even if control else None, everywhere=False,
    )  # fmt: skip


def test_a_measured_candidate_goes_out_behind_the_sizes_that_it_won(scale, exported):
    partial(scale)
    made = exported(scale, modelled=False)
    assert {p.name for p in made.proofs if p.established} >= {"applies", "verified", "engagement"}
    evidence = json.loads((scale / "out/evidence.json").read_text())
    assert evidence["faster_over_all_workloads"] is False
    inside = {
        (r["axes"]["rows"], r["axes"]["columns"]) for r in evidence["engagement"] if r["inside"]
    }
    assert inside == {(16, 8192), (64, 8192)}
    text = (scale / "out/PULL_REQUEST.md").read_text()
    assert "the new kernel alone is not faster than the old one" in text
    guarded = (1.3 * 1.6) ** (1 / 5)
    assert (
        f"3 of 5 sizes that are no win, as the guard has it: {guarded:.3f} (from the rows" in text
    )
    assert "measured 0.900x" in text
    assert "astra confirm" not in text
    assert "astra export" in text


def test_a_modelled_candidate_is_exported_when_that_is_asked_for(scale, exported):
    look = read_run(scale / "run").history.remeasured[0]
    rewritten(scale, sources.EDITS, everywhere=False)
    assert look.evaluation.geomean.kind == "modelled"
    with pytest.raises(NothingToExport, match="--modelled"):
        exported(scale, modelled=False)
    exported(scale)
    assert "Modelled only" in (scale / "out/PULL_REQUEST.md").read_text()


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"control": None}, "no control"),
        ({"control": 1.1}, "uneven"),
        ({"16x8192": 1.0, "64x8192": 1.011}, "by chance"),
        ({"16x8192": 0.9, "64x8192": 0.9}, "not at any one size"),
    ],
)
def test_what_is_not_established_is_refused_with_the_reason(scale, exported, changes, said):
    partial(scale, **changes)
    with pytest.raises(NothingToExport, match=said):
        exported(scale, modelled=False)
    assert not (scale / "out").exists()
