"""What a run established, in the order in which a reader asks for it. Templates only lay it out.

Modelled and measured never share a column: every time carries its kind, and every headline says it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime

from astra_kernels.records.confirmation import Claim, Confirmation, conclude
from astra_kernels.records.describe import describe, describe_timing
from astra_kernels.records.evaluation import Evaluation, Measured, Modelled, Passed
from astra_kernels.records.guarded import ahead_at_some_sizes, some_sizes_said
from astra_kernels.records.history import History
from astra_kernels.records.problem import Problem
from astra_kernels.records.run import RunStarted, WinnerRemeasured
from astra_kernels.records.wins import beats_baseline
from astra_kernels.reporting.attempts import AttemptFact, attempt_facts
from astra_kernels.reporting.ceilings import Ceiling, ceiling_of
from astra_kernels.reporting.changes import FileChange, changes
from astra_kernels.reporting.workloads import TimeKind, WorkloadFact, workload_facts


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """The first thing that is said."""

    word: str
    """`confirmed`, `refuted`, `not established`, `no improvement found` or `not finished`."""
    sentence: str
    """What was found, with its number and interval, or why there is none."""
    kind: TimeKind
    """What the number in the sentence is."""
    claims: Mapping[str, Claim]
    facts: tuple[str, ...]
    """What else held while it was judged."""


@dataclass(frozen=True, kw_only=True)
class Report:
    """One run."""

    name: str
    problem: Problem
    started: RunStarted
    history: History
    verdict: Verdict
    judged: Passed | None
    """The second look at the best candidate, or what the baseline got where there is none."""
    workloads: tuple[WorkloadFact, ...]
    attempts: tuple[AttemptFact, ...]
    ceiling: Ceiling | None
    changes: tuple[FileChange, ...]
    """What the best candidate changed."""
    best: str | None
    not_established: tuple[str, ...]

    @property
    def device(self) -> str:
        """The device in words, as the worker named it."""
        judged = self.judged or self.history.baseline_evaluation
        return judged.device if judged else self.started.config.device

    @property
    def date(self) -> str:
        """The day on which the run began, ISO 8601."""
        return datetime.fromisoformat(self.started.at).date().isoformat()

    @property
    def title(self) -> str:
        """The best candidate's title."""
        return self.history.candidate(self.best).title if self.best else ""


def report_of(name: str, problem: Problem, history: History) -> Report:
    """Everything that the report says of a run, finished or not.

    Args:
        name: of the run.
        problem: as it was when the run began.
        history: with its start; a log without one is no run.
    """
    started = history.started
    assert started is not None, "whoever reads a run refuses such a log"
    best = history.finished.best if history.finished else None
    look = next((r for r in history.remeasured if r.candidate == best), None)
    judged = look.evaluation if look and isinstance(look.evaluation, Passed) else None
    winner = history.candidate(best) if best else None
    baseline = history.baseline_evaluation
    return Report(
        name=name,
        problem=problem,
        started=started,
        history=history,
        verdict=_verdict(history, look),
        judged=judged,
        workloads=workload_facts(judged),
        attempts=attempt_facts(history),
        ceiling=ceiling_of(judged or baseline),
        changes=changes(problem.baseline, winner, _seen(history, best)) if winner else (),
        best=best,
        not_established=tuple(dict.fromkeys(_not_established(history, look))),
    )


def _seen(history: History, best: str | None) -> tuple[Evaluation, ...]:
    """Evaluations of the baseline and of the best candidate, whose counters by line may be shown."""
    own = [a.evaluation for a in history.attempts if a.candidate.id == best]
    own += [s.evaluation for s in history.screened if s.candidate.id == best]
    base = [history.baseline_evaluation] if history.baseline_evaluation else []
    return (*base, *own)


def _verdict(history: History, look: WinnerRemeasured | None) -> Verdict:
    nothing: Mapping[str, Claim] = {}
    if look is not None:
        confirmation = conclude(look.look)
        return Verdict(
            word=confirmation.verdict,
            sentence=_found(look.evaluation, confirmation),
            kind=_kind(look.evaluation),
            claims=confirmation.claims,
            facts=confirmation.facts,
        )
    if history.finished is None:
        word, sentence = (
            "not finished",
            "The run has not ended; what stands here is what it has found so far.",
        )
    else:
        word = "no improvement found"
        sentence = f"No candidate beat the baseline beyond the error of the time. The search ended: {history.finished.reason}."
        sentence += _looked_at_again(history)
    return Verdict(word=word, sentence=sentence, kind="none", claims=nothing, facts=())


def _looked_at_again(history: History) -> str:
    """Of candidates that were judged again in a run that found no better kernel."""
    searched = {a.candidate.id: a.evaluation for a in history.attempts}
    lost = [r for r in history.remeasured if beats_baseline(searched.get(r.candidate))]
    said = ""
    if lost:
        said += f" {len(lost)} looked better in the search and did not hold when judged again."
    if (ahead := ahead_at_some_sizes(history)) is not None:
        said += f" {some_sizes_said(ahead)}"
    return said


def _found(evaluation: Evaluation, confirmation: Confirmation) -> str:
    match evaluation:
        case Passed(geomean=Measured() as time):
            sentence = (
                f"{time.ratio:.3f} times the baseline's speed, 95 % interval [{time.ratio_low:.3f}, {time.ratio_high:.3f}], "
                f"geometric mean over {_timed(evaluation)} workloads, measured on {evaluation.device}."
            )
        case Passed(geomean=Modelled() as time):
            sentence = (
                f"Modelled gain {time.gain:.3f} on {evaluation.device}, geometric mean over {_timed(evaluation)} workloads; "
                f"the model is off by {time.model_error:.0%}. Nothing was measured: no speedup is claimed."
            )
        case _:
            sentence = f"{describe(evaluation)[:1].upper()}{describe(evaluation)[1:]}."
    return sentence


def _timed(evaluation: Passed) -> int:
    return sum(w.timing is not None for w in evaluation.workloads)


def _kind(evaluation: Evaluation) -> TimeKind:
    match evaluation:
        case Passed(geomean=Measured()):
            return "measured"
        case Passed(geomean=Modelled()):
            return "modelled"
    return "none"


def _not_established(history: History, look: WinnerRemeasured | None) -> Iterator[str]:
    """What a reader might take for granted and should not."""
    if history.finished is None:
        yield "the run has not ended"
    if look is None:
        return
    yield from conclude(look.look).reasons
    yield from look.trouble
    evaluation = look.evaluation
    if not isinstance(evaluation, Passed):
        return
    for check in evaluation.safety:
        if check.verdict != "held":
            yield f"{check.tool}: {check.detail}"
    for workload in evaluation.workloads:
        if not workload.checked:
            yield f"the outputs of {workload.uuid} were not compared: {workload.note or 'no oracle'}"
        elif workload.note:
            yield f"{workload.uuid}: {workload.note}"
    for dropped in evaluation.dropped:
        yield f"hidden workloads of the kind {dropped.kind}: the baseline itself fails on them ({dropped.reason})"
    if evaluation.consistency is not None and evaluation.consistency.detail:
        yield evaluation.consistency.detail
    if isinstance(evaluation.geomean, Modelled):
        yield "no time was measured: whether a GPU runs the candidate faster"
    elif evaluation.geomean is None or not isinstance(evaluation.geomean, Measured):
        yield f"time: {describe_timing(evaluation.geomean)}"
    if look.elsewhere is None:
        yield "another GPU than this one"
    yield "other shapes than those in the tables, in time; other dtypes; other compilers than the one named below"
