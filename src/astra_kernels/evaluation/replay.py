"""Answers from recorded evaluations.

A recorded run is a test fixture, and a refactoring is proved by an unchanged event stream.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from astra_kernels.errors import MachineFault, UserError
from astra_kernels.protocols import Effort
from astra_kernels.records.candidate import Candidate
from astra_kernels.records.evaluation import Crashed, Evaluation
from astra_kernels.records.run import (
    BaselineEvaluated,
    CandidateEvaluated,
    CandidateScreened,
    Event,
    WinnerRemeasured,
    WorkloadsProposed,
)
from astra_kernels.records.workload import Workload

_Known = dict[tuple[str, Effort], deque[Evaluation | UserError]]


@dataclass
class ReplayEvaluator:
    """Gives each candidate the evaluations it got before, in their order; the last one again when they run out."""

    recorded: _Known = field(default_factory=lambda: defaultdict(deque))
    other_device: dict[str, Evaluation] = field(default_factory=dict)
    """What a second device said, by candidate."""
    ranked: dict[str, Evaluation] = field(default_factory=dict)
    """What a screening device modelled, by candidate."""

    @staticmethod
    def from_events(events: Iterable[Event]) -> ReplayEvaluator:
        """What a recorded run established."""
        replay = ReplayEvaluator()
        baseline = ""
        for event in events:
            match event:
                case BaselineEvaluated():
                    baseline = event.candidate.id
                    replay._add(baseline, "search", event.evaluation)
                case WorkloadsProposed():
                    for evaluation in event.evaluations:
                        replay._add(baseline, "search", evaluation)
                    if event.refused and not event.evaluations:
                        replay._add(
                            baseline, "search", UserError(next(iter(event.refused.values())))
                        )
                case CandidateEvaluated():
                    replay._add(event.candidate.id, "search", event.evaluation)
                case CandidateScreened():
                    replay.ranked[event.candidate.id] = event.evaluation
                case WinnerRemeasured():
                    replay._add(event.candidate, "confirm", event.evaluation)
                    if event.control is not None:
                        replay._add(baseline, "confirm", event.control)
                    if event.elsewhere is not None:
                        replay.other_device[event.candidate] = event.elsewhere
        return replay

    def _add(self, candidate: str, effort: Effort, said: Evaluation | UserError) -> None:
        self.recorded[candidate, effort].append(said)

    def evaluate_all(
        self,
        candidates: Sequence[Candidate],
        workloads: tuple[Workload, ...],
        seed: int,
        effort: Effort,
    ) -> Iterator[Evaluation]:
        """The recorded evaluations, in the order of the candidates."""
        return (self.evaluate(c, workloads, seed, effort) for c in candidates)

    def evaluate(
        self, candidate: Candidate, workloads: tuple[Workload, ...], seed: int, effort: Effort
    ) -> Evaluation:
        """The recorded evaluation.

        Raises:
            MachineFault: the run that was recorded never judged this candidate.
            UserError: it raised one.
        """
        known = self.recorded[candidate.id, effort]
        if not known:
            raise MachineFault(
                f"no recorded evaluation of candidate {candidate.id} ({candidate.title})"
            )
        said = known.popleft() if len(known) > 1 else known[0]
        if isinstance(said, UserError):
            raise said
        return said

    def screened(self, candidates: Sequence[Candidate], screen: str) -> Iterator[Evaluation]:
        """What a screening device said, where it is on record; else what was said later."""
        for candidate in candidates:
            if candidate.id in self.ranked:
                yield self.ranked[candidate.id]
                continue
            known = self.recorded[candidate.id, "search"]
            said = known[0] if known else None
            if said is None or isinstance(
                said, UserError
            ):  # it passed, and no budget was left for it
                yield Crashed(device=screen, stage="correctness", detail="not on record")
            else:
                yield said

    def elsewhere(self, candidate: Candidate, workloads: tuple[Workload, ...]) -> Evaluation:
        """What the second device said.

        Raises:
            MachineFault: the run that was recorded had none.
        """
        if candidate.id not in self.other_device:
            raise MachineFault(f"no recorded evaluation of candidate {candidate.id} elsewhere")
        return self.other_device[candidate.id]
