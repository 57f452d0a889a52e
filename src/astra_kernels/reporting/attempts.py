"""Candidates of the search: where each came from, what was hoped of it, what came of it."""

from __future__ import annotations

from dataclasses import dataclass

from astra_kernels.records.describe import describe
from astra_kernels.records.evaluation import Measured, Modelled, Passed
from astra_kernels.records.history import Attempt, History, gain
from astra_kernels.records.wins import beats_baseline
from astra_kernels.reporting.workloads import TimeKind, spread


@dataclass(frozen=True, kw_only=True)
class AttemptFact:
    """One candidate."""

    id: str
    parent: str
    round: int
    title: str
    technique: str
    hypothesis: str
    risk: str
    predicted: float
    """Gain over the baseline that the plan promised: its own prediction times what its parent had."""
    gain: float | None
    low: float | None
    high: float | None
    kind: TimeKind
    outcome: str
    """The kind of outcome: `passed`, `incorrect` and so on."""
    summary: str
    wins: bool
    best: bool
    depth: int
    """Edits between it and the baseline."""

    @property
    def failed(self) -> bool:
        """It did not pass, for whatever reason."""
        return self.outcome != "passed"


def attempt_facts(history: History) -> tuple[AttemptFact, ...]:
    """Every candidate that was judged, in the order of the tree: children after their parent."""
    best = history.finished.best if history.finished else None
    facts: dict[str, AttemptFact] = {}
    for attempt in history.attempts:
        facts.setdefault(attempt.candidate.id, _fact(attempt, facts, best))
    return tuple(_in_tree_order(facts))


def _fact(attempt: Attempt, known: dict[str, AttemptFact], best: str | None) -> AttemptFact:
    candidate, evaluation, plan = attempt.candidate, attempt.evaluation, attempt.plan
    parent = known.get(candidate.parent or "")
    low, high = None, None
    kind: TimeKind = "none"
    if isinstance(evaluation, Passed) and isinstance(evaluation.geomean, Measured | Modelled):
        _, low, high = spread(evaluation.geomean)
        kind = evaluation.geomean.kind
    return AttemptFact(
        id=candidate.id,
        parent=candidate.parent or "",
        round=attempt.round,
        title=candidate.title,
        technique=plan.technique,
        hypothesis=plan.hypothesis,
        risk=plan.risk,
        predicted=plan.predicted_gain * ((parent.gain or 1.0) if parent else 1.0),
        gain=gain(evaluation),
        low=low,
        high=high,
        kind=kind,
        outcome=evaluation.outcome,
        summary=describe(evaluation),
        wins=beats_baseline(evaluation),
        best=candidate.id == best,
        depth=parent.depth + 1 if parent else 1,
    )


def _in_tree_order(facts: dict[str, AttemptFact]) -> list[AttemptFact]:
    """Depth first; a candidate whose parent was not judged hangs on the baseline."""
    children: dict[str, list[AttemptFact]] = {}
    for fact in facts.values():
        children.setdefault(fact.parent if fact.parent in facts else "", []).append(fact)
    ordered: list[AttemptFact] = []
    waiting = list(reversed(children.get("", [])))
    while waiting:
        fact = waiting.pop()
        ordered.append(fact)
        waiting.extend(reversed(children.get(fact.id, [])))
    return ordered
