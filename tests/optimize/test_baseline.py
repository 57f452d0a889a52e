"""Proposed workloads count only where the baseline agrees with the reference, and cost no job of their own."""

import pytest

from astra_kernels.baseline import lay_groundwork
from astra_kernels.errors import UserError
from astra_kernels.records.workload import Workload

from .stand_ins import WORKLOAD, incorrect, passed, problem

PROPOSED = tuple(Workload(uuid=name, axes={"n": 4}, inputs={}) for name in ("a", "b", "c"))


def judged(answer):
    asked = []

    def judge(workloads):
        asked.append([w.uuid for w in workloads])
        said = answer(asked[-1])
        if isinstance(said, Exception):
            raise said
        return said

    return lay_groundwork(problem(), PROPOSED, judge), asked


def test_a_baseline_that_agrees_is_judged_once():
    ground, asked = judged(lambda names: passed(1.0))
    assert asked == [["w", "a", "b", "c"]]
    assert (ground.accepted, ground.refused, ground.disagreements) == (PROPOSED, {}, ())


def test_a_proposal_on_which_it_fails_is_left_out():
    ground, asked = judged(lambda names: incorrect("b") if "b" in names else passed(1.0))
    assert asked == [["w", "a", "b", "c"], ["w", "a", "c"]]
    assert [w.uuid for w in ground.accepted] == ["a", "c"]
    assert list(ground.refused) == ["b"] and "the baseline: " in ground.refused["b"]
    assert ground.disagreements == (incorrect("b"),)


@pytest.mark.parametrize("culprit", [WORKLOAD.uuid, None])
def test_a_fault_of_the_baseline_itself_is_found_without_the_proposals(culprit):
    ground, asked = judged(lambda names: incorrect(culprit))
    assert asked == [["w", "a", "b", "c"], ["w"]]
    assert (ground.evaluation, ground.accepted) == (incorrect(culprit), ())


def test_proposals_that_the_problems_own_functions_do_not_know_are_refused():
    unknown = UserError("make_inputs: no such size")
    ground, _ = judged(lambda names: unknown if "a" in names else passed(1.0))
    assert ground.accepted == ()
    assert ground.refused == dict.fromkeys(("a", "b", "c"), "make_inputs: no such size")
    with pytest.raises(UserError, match="no such size"):
        judged(lambda names: unknown)
