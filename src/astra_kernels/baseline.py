"""What must hold before anything is searched or judged: the baseline itself agrees with the reference."""

from __future__ import annotations

from collections.abc import Callable

from astra_kernels.errors import ProblemError, UserError
from astra_kernels.records.describe import describe
from astra_kernels.records.evaluation import Evaluation, Incorrect, Passed
from astra_kernels.records.problem import Problem
from astra_kernels.records.workload import Workload


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


def agreed_workloads(
    proposals: tuple[Workload, ...],
    evaluate_baseline: Callable[[tuple[Workload, ...]], Evaluation],
) -> tuple[tuple[Workload, ...], dict[str, str]]:
    """The proposals on which the baseline agrees with the reference, and why each other one was refused."""
    waiting = {w.uuid: w for w in proposals}
    refused: dict[str, str] = {}
    while waiting:
        try:
            evaluation = evaluate_baseline(tuple(waiting.values()))
        except UserError as error:  # the problem's own functions need not know other sizes
            refused |= dict.fromkeys(waiting, str(error))
            return (), refused
        if isinstance(evaluation, Passed):
            break
        culprit = getattr(evaluation, "workload", None)
        for name in [culprit] if culprit in waiting else list(waiting):
            refused[str(name)] = f"the baseline: {describe(evaluation)}"
            del waiting[str(name)]
    return tuple(waiting.values()), refused
