"""Answers from recorded evaluations.

A recorded run is a test fixture, and a refactoring is proved by an unchanged event stream.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from astra_kernels.errors import MachineFault
from astra_kernels.protocols import Effort
from astra_kernels.records.candidate import Candidate
from astra_kernels.records.evaluation import Evaluation
from astra_kernels.records.run import BaselineEvaluated, CandidateEvaluated, Event, WinnerRemeasured
from astra_kernels.records.workload import Workload


@dataclass
class ReplayEvaluator:
    """Gives each candidate the evaluations it got before, in their order; the last one again when they run out."""

    recorded: dict[str, list[Evaluation]] = field(default_factory=dict)

    @staticmethod
    def from_events(events: Iterable[Event]) -> ReplayEvaluator:
        """What a recorded run established."""
        replay = ReplayEvaluator()
        for event in events:
            if isinstance(event, BaselineEvaluated | CandidateEvaluated):
                replay.recorded.setdefault(event.candidate.id, []).append(event.evaluation)
            elif isinstance(event, WinnerRemeasured):
                replay.recorded.setdefault(event.candidate, []).append(event.evaluation)
        return replay

    def evaluate(
        self, candidate: Candidate, workloads: tuple[Workload, ...], seed: int, effort: Effort
    ) -> Evaluation:
        """The recorded evaluation.

        Raises:
            MachineFault: the run that was recorded never judged this candidate.
        """
        known = self.recorded.get(candidate.id)
        if not known:
            raise MachineFault(
                f"no recorded evaluation of candidate {candidate.id} ({candidate.title})"
            )
        return known.pop(0) if len(known) > 1 else known[0]

    def evaluate_all(
        self,
        candidates: Sequence[Candidate],
        workloads: tuple[Workload, ...],
        seed: int,
        effort: Effort,
    ) -> Iterator[Evaluation]:
        """The recorded evaluations, in the order of `candidates`."""
        return (self.evaluate(c, workloads, seed, effort) for c in candidates)
