"""Which candidate of a run is exported, and what was established about it."""

from __future__ import annotations

from dataclasses import dataclass

from astra_kernels.errors import NothingToExport
from astra_kernels.records.candidate import Candidate
from astra_kernels.records.confirmation import Confirmation, conclude
from astra_kernels.records.evaluation import Measured, Modelled, Passed, Timing
from astra_kernels.records.history import History
from astra_kernels.records.plan import Plan
from astra_kernels.records.run import WinnerRemeasured


@dataclass(frozen=True)
class Winner:
    """The candidate of the second look."""

    candidate: Candidate
    plan: Plan
    """Why it was made."""
    evaluation: Passed
    """Of the second look."""
    remeasured: WinnerRemeasured
    confirmation: Confirmation

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
        NothingToExport: there is none, or it is not confirmed.
    """
    if history.finished is None:
        raise NothingToExport("the run is not finished; go on with astra optimize --resume RUN")
    best = history.finished.best
    looks = [r for r in history.remeasured if r.candidate == best]
    attempt = next((a for a in history.attempts if a.candidate.id == best), None)
    if not looks or attempt is None:
        raise NothingToExport("the run found nothing that is faster than the baseline")
    look = looks[-1]
    confirmation = conclude(look.look)
    evaluation = look.evaluation
    if not isinstance(evaluation, Passed):
        raise NothingToExport(f"the winner did not pass the second look: {confirmation.reasons[0]}")
    winner = Winner(attempt.candidate, attempt.plan, evaluation, look, confirmation)
    if not winner.modelled and confirmation.verdict != "confirmed":
        raise NothingToExport(
            f"the winner is {confirmation.verdict} by the second look: {'; '.join(confirmation.reasons)}"
        )
    if winner.modelled:
        _accepted(winner, modelled=modelled)
    return winner


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


def is_win(timing: Timing | None) -> bool:
    """Whether the interval lies wholly above 1, or the modelled gain beyond the model's error."""
    match timing:
        case Measured(ratio_low=low):
            return low > 1.0
        case Modelled(gain=gain, model_error=error):
            return gain > 1.0 + error
    return False
