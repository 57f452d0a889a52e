"""The verdict on a second look: every claim has to hold, and one that failed decides."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from astra_kernels.records.confirmation import SecondLook, conclude
from astra_kernels.records.evaluation import (
    BuildFailed,
    Crashed,
    Incorrect,
    Measured,
    Modelled,
    NotEstablished,
    Passed,
    Quarantined,
    Rejected,
    SafetyCheck,
    TimedOut,
    Unsafe,
    WorkloadResult,
)


def measured(low, high):
    return Measured(
        baseline_us=2.0,
        candidate_us=1.0,
        ratio=(low + high) / 2,
        ratio_low=low,
        ratio_high=high,
        rounds=20,
        baseline_spread=0.01,
        candidate_spread=0.01,
    )


def row(*, checked=True):
    return WorkloadResult(uuid="w", axes={}, seed=1, accuracy=(), checked=checked)


HELD = SafetyCheck(tool="memcheck", verdict="held", detail="on w")
UNKNOWN = SafetyCheck(tool="racecheck", verdict="not_established", detail="not installed here")


def passed(geomean=None, safety=(HELD,), rows=None, device="cuda:0"):
    rows = (row(),) if rows is None else rows
    return Passed(device=device, workloads=rows, resources=(), safety=safety, geomean=geomean)


FAILURES = {
    "build_failed": BuildFailed(device="d", messages=(), log="no"),
    "rejected": Rejected(device="d", rule="stream", detail="?"),
    "crashed": Crashed(device="d", stage="correctness", detail="?"),
    "crashed in time": Crashed(device="d", stage="time", detail="?"),
    "timed_out": TimedOut(device="d", stage="correctness", limit_s=1.0),
    "timed_out in time": TimedOut(device="d", stage="time", limit_s=1.0),
    "unsafe": Unsafe(device="d", kind="shared_race", kernel="k", detail="?"),
    "incorrect": Incorrect(
        device="d", workload="w", axes={}, output="y", index=(0,), expected="1", got="2", rule="r",
        mismatches=1, elements=1,
    ),
}  # fmt: skip
DOUBTS = {
    "quarantined": Quarantined(device="d", reason="too fast"),
    "nothing": None,
    "interval holds 1": passed(measured(0.99, 1.05)),
    "other work": passed(NotEstablished(reason="other work on the GPU")),
    "not timed": passed(None),
    "modelled": passed(Modelled(baseline_us=9.0, candidate_us=1.0, gain=9.0, model_error=0.1)),
    "no safety tool": passed(measured(1.1, 1.2), safety=()),
    "one tool missing": passed(measured(1.1, 1.2), safety=(HELD, UNKNOWN)),
    "not checked": passed(measured(1.1, 1.2), rows=(row(checked=False),)),
}
SLOWER = {
    "slower": passed(measured(0.8, 0.9)),
    "at most as fast": passed(measured(0.99, 1.0)),
}
BEST = passed(measured(1.1, 1.2))
EVEN = passed(measured(0.995, 1.004))
BEST_LOOK = SecondLook(evaluation=BEST, control=EVEN)


def test_correct_safe_and_faster_with_an_even_control_is_confirmed():
    found = conclude(BEST_LOOK)
    assert (found.verdict, found.reasons) == ("confirmed", ())
    assert "measured 1.150x" in found.faster.reason
    assert any("baseline against itself" in fact for fact in found.facts)
    assert any("CUDA graph" in fact for fact in found.facts)


@pytest.mark.parametrize(
    "evaluation", [*FAILURES.values(), *SLOWER.values()], ids=[*FAILURES, *SLOWER]
)
def test_a_failure_refutes_and_says_why(evaluation):
    found = conclude(SecondLook(evaluation=evaluation, control=EVEN))
    assert found.verdict == "refuted"
    assert len(found.reasons) == 1


@pytest.mark.parametrize("evaluation", DOUBTS.values(), ids=DOUBTS)
def test_a_doubt_establishes_nothing_and_says_why(evaluation):
    found = conclude(SecondLook(evaluation=evaluation, control=EVEN))
    assert found.verdict == "not established"
    assert found.reasons
    assert all(found.reasons)


@pytest.mark.parametrize(
    ("control", "said"),
    [
        (None, "no control"),
        (passed(measured(1.01, 1.03)), "came out uneven"),
        (passed(measured(0.95, 0.99)), "came out uneven"),
        (passed(NotEstablished(reason="other work")), "other work"),
        (FAILURES["crashed"], "crashed"),
    ],
)
def test_without_an_even_control_a_ratio_is_not_believed(control, said):
    found = conclude(replace(BEST_LOOK, control=control))
    assert found.verdict == "not established"
    assert (found.correct.verdict, found.safe.verdict) == ("held", "held")
    assert said in found.faster.reason


def test_trouble_of_the_machine_is_named():
    found = conclude(SecondLook(evaluation=BEST, control=EVEN, trouble=("the disk is full",)))
    assert found.verdict == "not established"
    assert "the disk is full" in found.faster.reason
    assert conclude(SecondLook(evaluation=None, trouble=("lost",))).reasons[0] == "correct: lost"


def test_a_second_device_has_a_say():
    agreed = replace(BEST_LOOK, elsewhere=passed(device="cuda:1 NVIDIA H200"))
    assert conclude(agreed).verdict == "confirmed"
    assert "correct on cuda:1 NVIDIA H200 too" in conclude(agreed).facts
    differs = replace(BEST_LOOK, elsewhere=replace(FAILURES["incorrect"], device="cuda:1"))
    assert conclude(differs).verdict == "refuted"
    assert "on cuda:1" in conclude(differs).correct.reason


def test_what_is_not_checked_is_said():
    some = passed(measured(1.1, 1.2), rows=(row(), row(checked=False)))
    found = conclude(replace(BEST_LOOK, evaluation=some))
    assert "1 were too large to check" in found.correct.reason


EVALUATIONS = st.sampled_from([*FAILURES.values(), *DOUBTS.values(), *SLOWER.values(), BEST, EVEN])


@given(EVALUATIONS, EVALUATIONS, EVALUATIONS, st.sampled_from([(), ("fault",)]))
def test_nothing_but_the_best_case_is_confirmed(evaluation, control, elsewhere, trouble):
    look = SecondLook(evaluation=evaluation, control=control, elsewhere=elsewhere, trouble=trouble)
    found = conclude(look)
    if found.verdict == "confirmed":
        assert evaluation is BEST
        assert isinstance(control, Passed)
        assert control.geomean.ratio_low <= 1 <= control.geomean.ratio_high
        assert elsewhere is None or elsewhere.outcome in ("passed", "quarantined")
        assert not trouble
    else:
        assert found.reasons
    if any(
        e is not None and e.outcome in {f.outcome for f in FAILURES.values()} for e in (evaluation,)
    ):
        assert found.verdict == "refuted"
