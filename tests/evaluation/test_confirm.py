"""What is asked for in a second look, and that a fault of the machine in a part of it is only noted."""

import pytest

from astra_kernels.errors import MachineFault
from astra_kernels.evaluation.confirm import second_look
from astra_kernels.records.candidate import Candidate
from astra_kernels.records.confirmation import conclude
from astra_kernels.records.evaluation import (
    Crashed,
    Measured,
    Modelled,
    Passed,
    SafetyCheck,
    WorkloadResult,
)
from astra_kernels.records.workload import Workload
from tests.optimize.stand_ins import BASELINE, problem

CANDIDATE = Candidate(sources={"k.cu": "1"})
WORKLOADS = (
    Workload(uuid="timed", axes={"n": 1}, inputs={}),
    Workload(uuid="edge", axes={"n": 2}, inputs={}, timed=False),
)


def passed(timing):
    return Passed(
        device="cuda:0",
        workloads=(WorkloadResult(uuid="timed", axes={}, seed=1, accuracy=()),),
        resources=(),
        safety=(SafetyCheck(tool="memcheck", verdict="held", detail=""),),
        geomean=timing,
    )


def measured(low, high):
    return Measured(
        baseline_us=1.0,
        candidate_us=1.0,
        ratio=(low + high) / 2,
        ratio_low=low,
        ratio_high=high,
        rounds=20,
        baseline_spread=0.01,
        candidate_spread=0.01,
    )


class Answers:
    """Judges from a table by candidate; keeps what was asked."""

    def __init__(self, **answers):
        self.answers = answers
        self.asked = []

    def __call__(self, candidate, workloads):
        name = "baseline" if candidate == BASELINE else "candidate"
        self.asked.append((name, tuple((w.uuid, w.timed) for w in workloads)))
        answer = self.answers[name]
        if isinstance(answer, Exception):
            raise answer
        return answer


FASTER, EVEN = passed(measured(1.1, 1.2)), passed(measured(0.99, 1.01))
ALL = (("timed", True), ("edge", False))


def test_a_faster_candidate_needs_a_control():
    judge = Answers(candidate=FASTER, baseline=EVEN)
    look = second_look(problem(), CANDIDATE, WORKLOADS, judge)
    assert judge.asked == [("candidate", ALL), ("baseline", (("timed", True),))]
    assert conclude(look).verdict == "confirmed"


@pytest.mark.parametrize(
    "evaluation",
    [
        passed(measured(0.9, 0.95)),
        passed(measured(0.99, 1.01)),
        passed(Modelled(baseline_us=2.0, candidate_us=1.0, gain=2.0, model_error=0.1)),
        Crashed(device="d", stage="correctness", detail="?"),
    ],
)
def test_no_control_where_it_cannot_change_the_verdict(evaluation):
    judge = Answers(candidate=evaluation)
    assert conclude(second_look(problem(), CANDIDATE, WORKLOADS, judge)).verdict != "confirmed"
    assert judge.asked == [("candidate", ALL)]


def test_a_second_device_judges_all_workloads_without_timing_them():
    elsewhere = Answers(candidate=passed(None))
    judge = Answers(candidate=FASTER, baseline=EVEN)
    look = second_look(problem(), CANDIDATE, WORKLOADS, judge, elsewhere)
    assert elsewhere.asked == [("candidate", (("timed", False), ("edge", False)))]
    assert conclude(look).verdict == "confirmed"


def test_a_fault_in_the_control_is_noted():
    judge = Answers(candidate=FASTER, baseline=MachineFault("lost"))
    found = conclude(second_look(problem(), CANDIDATE, WORKLOADS, judge))
    assert found.verdict == "not established"
    assert (
        "the control of the baseline against itself could not be made: lost" in found.faster.reason
    )


def test_a_fault_while_the_candidate_is_judged_is_raised():
    with pytest.raises(MachineFault):
        second_look(problem(), CANDIDATE, WORKLOADS, Answers(candidate=MachineFault("lost")))
