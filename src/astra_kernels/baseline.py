"""What must hold before anything is searched or judged: the baseline itself agrees with the reference."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from astra_kernels.errors import ProblemError, UserError
from astra_kernels.records.describe import describe
from astra_kernels.records.evaluation import Evaluation, Incorrect, Passed
from astra_kernels.records.problem import Problem
from astra_kernels.records.workload import Workload

JudgeBaseline = Callable[[tuple[Workload, ...]], Evaluation]


@dataclass(frozen=True)
class Groundwork:
    """What the baseline did on the problem's workloads and on those that were proposed."""

    evaluation: Evaluation
    """On all that count."""
    accepted: tuple[Workload, ...]
    """Proposals on which the baseline agrees with the reference."""
    refused: dict[str, str]
    """Why others do not count, by uuid."""
    disagreements: tuple[Evaluation, ...]
    """What else the baseline got on the way, one for each time that it failed on proposals."""


def lay_groundwork(
    problem: Problem, proposals: tuple[Workload, ...], judge: JudgeBaseline
) -> Groundwork:
    """Judge the baseline on the problem's workloads and the proposals at once, and again without those it fails on.

    Raises:
        UserError: the problem's own functions fail on its own workloads.
    """
    waiting = {w.uuid: w for w in proposals}
    refused: dict[str, str] = {}
    disagreements: list[Evaluation] = []
    while True:
        try:
            evaluation = judge((*problem.workloads, *waiting.values()))
        except UserError as error:  # the problem's own functions need not know other sizes
            if not waiting:
                raise
            refused |= dict.fromkeys(waiting, str(error))
            waiting = {}
            continue
        if isinstance(evaluation, Passed) or not waiting:
            return Groundwork(evaluation, tuple(waiting.values()), refused, tuple(disagreements))
        disagreements.append(evaluation)
        culprit = getattr(evaluation, "workload", None)
        for name in [culprit] if culprit in waiting else list(waiting):
            refused[str(name)] = f"the baseline: {describe(evaluation)}"
            del waiting[str(name)]


def require_sound_baseline(problem: Problem, evaluation: Evaluation | None) -> None:
    """Refuse a problem whose baseline did not pass.

    Raises:
        ProblemError: saying what failed and what to do.
    """
    if isinstance(evaluation, Passed) or evaluation is None:
        return
    advice = (
        "either the kernel or reference.py is wrong"
        if isinstance(evaluation, Incorrect)
        else "the baseline must build and run before it can be improved"
    )
    raise ProblemError(f"{problem.name}: the baseline failed: {describe(evaluation)}; {advice}")
