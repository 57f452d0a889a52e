"""Which candidate of a run is exported, and what was established about it."""

from __future__ import annotations

from dataclasses import dataclass

from astra_kernels.errors import NothingToExport
from astra_kernels.records.candidate import Candidate
from astra_kernels.records.confirmation import Confirmation, conclude
from astra_kernels.records.evaluation import Passed
from astra_kernels.records.guarded import ahead_at_some_sizes, why_none_is_ahead
from astra_kernels.records.history import History
from astra_kernels.records.plan import Plan
from astra_kernels.records.run import WinnerRemeasured


@dataclass(frozen=True)
class Step:
    """One change on the way from the baseline to the winner."""

    title: str
    plan: Plan
    """Why it was made."""


@dataclass(frozen=True)
class Winner:
    """The candidate of the second look."""

    candidate: Candidate
    steps: tuple[Step, ...]
    """From the baseline on; the last one made the candidate."""
    evaluation: Passed
    """Of the second look."""
    remeasured: WinnerRemeasured
    confirmation: Confirmation
    everywhere: bool = True
    """Whether it is faster over all timed workloads; else at some of them by themselves."""

    @property
    def modelled(self) -> bool:
        """Whether its times come from the model of a simulated device."""
        return self.evaluation.device.startswith("sim:")

    @property
    def gpu(self) -> str:
        """The name of the GPU that ran it, or whose model did."""
        named = self.evaluation.environment.get("device_name", "")
        return named or self.evaluation.device.partition(" ")[2] or self.evaluation.device


def winner_of(history: History, *, modelled: bool) -> Winner:
    """The winner of a finished run.

    Args:
        history: what the run's log tells.
        modelled: accept one whose times are modelled.

    Raises:
        NothingToExport: there is none, or it is not confirmed; where none is faster over all workloads, one that is
            at some of them counts.
    """
    if history.finished is None:
        raise NothingToExport("the run is not finished; go on with astra optimize --resume RUN")
    best = history.finished.best
    look = ahead_at_some_sizes(history)
    if best is not None:
        look = next((r for r in reversed(history.remeasured) if r.candidate == best), None)
    if look is None:
        why = why_none_is_ahead(history)
        raise NothingToExport(
            "the run found nothing that is faster than the baseline, and "
            + (f"at some sizes nothing is established of {why}" if why else "not at any one size")
        )
    confirmation, evaluation = conclude(look.look), look.evaluation
    if not isinstance(evaluation, Passed):
        raise NothingToExport(f"the winner did not pass the second look: {confirmation.reasons[0]}")
    steps = _steps(history, look.candidate)
    candidate = history.candidate(look.candidate)
    winner = Winner(candidate, steps, evaluation, look, confirmation, best is not None)
    if winner.everywhere and not winner.modelled and confirmation.verdict != "confirmed":
        raise NothingToExport(
            f"the winner is {confirmation.verdict} by the second look: {'; '.join(confirmation.reasons)}"
        )
    if winner.modelled:
        _accepted(winner, modelled=modelled)
    return winner


def _steps(history: History, identifier: str) -> tuple[Step, ...]:
    """The changes that led to a candidate; the same sources may have been judged twice, and the first counts."""
    made = {a.candidate.id: a for a in reversed(history.attempts)}
    found: list[Step] = []
    while (attempt := made.pop(identifier, None)) is not None:
        found.insert(0, Step(attempt.candidate.title, attempt.plan))
        identifier = attempt.candidate.parent or ""
    return tuple(found)


def _accepted(winner: Winner, *, modelled: bool) -> None:
    """Refuses a modelled winner that was not asked for, or of which more than the time is open."""
    if not modelled:
        raise NothingToExport(
            f"the winner was judged on {winner.evaluation.device}: its times are modelled and nothing was measured; "
            "confirm it on a GPU, or export it all the same with --modelled"
        )
    held = {n: c for n, c in winner.confirmation.claims.items() if n != "faster"}
    for name, claim in held.items():
        if claim.verdict != "held":
            raise NothingToExport(f"the winner is not {name}: {claim.reason}")
