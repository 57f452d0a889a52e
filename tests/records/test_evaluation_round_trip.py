"""Every outcome survives JSON, and says something useful in one sentence."""

import json
from dataclasses import asdict
from typing import get_args

import pytest
from pydantic import TypeAdapter, ValidationError

from astra_kernels.records import evaluation as e
from astra_kernels.records.describe import describe
from astra_kernels.records.history import gain
from astra_kernels.records.run import JudgedEvaluation
from astra_kernels.records.wins import beats_baseline

ADAPTER = TypeAdapter(JudgedEvaluation)
ACCURACY = e.OutputAccuracy(
    output="y", max_ulp=0.5, rms_ulp=0.1, mismatches=3, elements=9, max_abs=1e-3
)
MODELLED = e.Modelled(baseline_us=4.0, candidate_us=2.0, gain=2.0, model_error=0.2)
MEASURED = e.Measured(
    baseline_us=4.0,
    candidate_us=3.9,
    ratio=1.02,
    ratio_low=0.99,
    ratio_high=1.05,
    rounds=10,
    baseline_spread=0.01,
    candidate_spread=0.01,
)


def passed(geomean):
    workload = e.WorkloadResult(
        uuid="w", axes={"n": 4}, seed=1, accuracy=(ACCURACY,), timing=geomean
    )
    return e.Passed(device="sim:h200", workloads=(workload,), resources=(), geomean=geomean)


OUTCOMES = [
    e.BuildFailed(
        device="d",
        messages=(
            e.CompilerMessage(severity="error", message="no such thing", file="k.cu", line=3),
        ),
    ),
    e.Rejected(device="d", rule="symbols", detail="imports system"),
    e.Crashed(device="d", stage="correctness", detail="signal 11", workload="w"),
    e.TimedOut(device="d", stage="time", limit_s=3.0),
    e.Incorrect(
        device="d",
        workload="w",
        axes={"n": 1},
        output="y",
        index=(0, 2),
        expected="1",
        got="nan",
        rule="max ulp",
        mismatches=1,
        elements=4,
    ),
    e.Unsafe(
        device="d",
        kind="out_of_bounds",
        kernel="k",
        detail="write of 4 bytes",
        block=(0, 0, 0),
        thread=(1, 0, 0),
        file="k.cu",
        line=9,
    ),
    e.Quarantined(device="d", reason="below the floor"),
    passed(MODELLED),
    passed(MEASURED),
    passed(e.NotEstablished(reason="busy")),
    passed(None),
]


def test_the_list_covers_the_union():
    assert {type(o) for o in OUTCOMES} == set(get_args(e.Evaluation))


@pytest.mark.parametrize("outcome", OUTCOMES, ids=lambda o: o.outcome)
def test_round_trip(outcome):
    text = json.dumps(asdict(outcome), allow_nan=False)
    assert ADAPTER.validate_json(text) == outcome
    sentence = describe(outcome)
    assert "\n" not in sentence
    assert len(sentence) > 10


def test_modelled_is_never_called_a_speedup():
    assert "modelled" in describe(passed(MODELLED))
    assert "speed" not in describe(passed(MODELLED))


def test_a_win_needs_the_whole_interval_or_more_than_the_model_error():
    assert not beats_baseline(passed(MEASURED))
    assert gain(passed(MEASURED)) == 1.02
    assert beats_baseline(passed(MODELLED))
    within = e.Modelled(baseline_us=1.1, candidate_us=1.0, gain=1.1, model_error=0.2)
    assert not beats_baseline(passed(within))
    assert gain(OUTCOMES[0]) is None


def test_an_unknown_outcome_is_refused():
    with pytest.raises(ValidationError):
        ADAPTER.validate_python({"outcome": "fine", "device": "d"})
