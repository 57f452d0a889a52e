"""Proposed workloads count only where the baseline agrees with the reference."""

from astra_kernels.baseline import agreed_workloads
from astra_kernels.errors import UserError
from astra_kernels.records.workload import Workload

PROPOSED = tuple(Workload(uuid=name, axes={"n": 4}, inputs={}) for name in ("a", "b"))


def test_proposals_that_the_problems_own_functions_do_not_know_are_refused():
    def judge(workloads):
        raise UserError("make_inputs: no such size")

    accepted, refused = agreed_workloads(PROPOSED, judge)
    assert accepted == ()
    assert refused == dict.fromkeys(("a", "b"), "make_inputs: no such size")
