"""The second look: a candidate judged once more, with a control of the method and, where there is one, a second device.

Timing candidate and baseline in processes of their own, as a check of the method, belongs beside the control.
"""

from __future__ import annotations

from collections.abc import Callable

from astra_kernels.errors import MachineFault
from astra_kernels.records.candidate import Candidate
from astra_kernels.records.confirmation import SecondLook
from astra_kernels.records.evaluation import Evaluation, Measured, Passed
from astra_kernels.records.problem import Problem
from astra_kernels.records.wins import beats_baseline, won_workloads
from astra_kernels.records.workload import Workload

Judge = Callable[[Candidate, tuple[Workload, ...]], Evaluation]
"""Judges in a job of its own, with a seed drawn for it."""


def second_look(
    problem: Problem,
    candidate: Candidate,
    workloads: tuple[Workload, ...],
    judge: Judge,
    elsewhere: Judge | None = None,
) -> SecondLook:
    """Judges `candidate` again, and what it takes to believe that.

    Args:
        problem: Whose baseline is the control.
        candidate: Frozen before any seed is drawn.
        workloads: All that it has to get right.
        judge: On the device, with the effort that confirms.
        elsewhere: On a second device; None where there is none.

    Raises:
        MachineFault: The machine failed while the candidate was judged. Of the rest, a fault is noted.
    """
    evaluation = judge(candidate, workloads)
    trouble: list[str] = []

    def attempt(
        what: str, asked: Judge, of: Candidate, on: tuple[Workload, ...]
    ) -> Evaluation | None:
        try:
            return asked(of, on)
        except MachineFault as fault:
            trouble.append(f"{what} could not be made: {fault}")
            return None

    control = other = None
    if _measured_faster(evaluation):
        timed = tuple(w for w in workloads if w.timed)
        what = "the control of the baseline against itself"
        control = attempt(what, judge, problem.baseline, timed)
    if elsewhere is not None and isinstance(evaluation, Passed):
        untimed = tuple(w.model_copy(update={"timed": False}) for w in workloads)
        other = attempt("the look on a second device", elsewhere, candidate, untimed)
    return SecondLook(
        evaluation=evaluation, control=control, elsewhere=other, trouble=tuple(trouble)
    )


def _measured_faster(evaluation: Evaluation) -> bool:
    """Whether a control can change the verdict: on the mean, or on a workload by itself."""
    if not isinstance(evaluation, Passed) or not isinstance(evaluation.geomean, Measured):
        return False
    return beats_baseline(evaluation) or bool(won_workloads(evaluation))
