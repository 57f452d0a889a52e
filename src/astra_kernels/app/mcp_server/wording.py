"""Verdicts as typed answers, and as short texts that a coder can act on.

What is said of failures is what any author of candidates may know: see `agents/llm/briefing/outcomes.py`.
"""

from __future__ import annotations

from collections.abc import Mapping

from astra_kernels.agents.llm.briefing.counters import counters_text
from astra_kernels.agents.llm.briefing.outcomes import failure_text, outcome_line
from astra_kernels.agents.llm.briefing.problem import problem_text, workloads_text
from astra_kernels.agents.llm.briefing.times import device_text, times_text
from astra_kernels.agents.llm.rendering import render
from astra_kernels.app.mcp_server.answers import (
    AttemptMade,
    BusyLine,
    ClaimMade,
    Confirmed,
    Diagnosed,
    EvidenceCited,
    HistoryTold,
    Judged,
    Kernel,
    LoadedProblem,
    Time,
    WorkloadGiven,
    WorkloadOutcome,
)
from astra_kernels.app.mcp_server.outside_run import OutsideRun, Verdict
from astra_kernels.app.runs import Run
from astra_kernels.evaluation.redaction import redacted
from astra_kernels.records.candidate import Candidate
from astra_kernels.records.confirmation import conclude
from astra_kernels.records.evaluation import (
    Evaluation,
    LineProfile,
    Measured,
    Modelled,
    Passed,
    Timing,
    WorkloadResult,
)
from astra_kernels.records.history import Attempt
from astra_kernels.records.plan import Diagnosis
from astra_kernels.records.run import WinnerRemeasured
from astra_kernels.records.wins import beats_baseline
from astra_kernels.reporting.workloads import spread

_MOST_LINES = 12


def judged(run: OutsideRun, candidate: Candidate, verdict: Verdict) -> Judged:
    """A verdict as the agent is told it."""
    evaluation = redacted(verdict.evaluation)
    passed = evaluation if isinstance(evaluation, Passed) else None
    rows = passed.workloads if passed else ()
    return Judged(
        run=run.name,
        candidate=candidate.id,
        parent=candidate.parent,
        title=candidate.title,
        outcome=evaluation.outcome,
        passed=passed is not None,
        beats_baseline=beats_baseline(evaluation),
        message=_message(evaluation, candidate.sources),
        time=_time(passed.geomean) if passed else None,
        workloads=tuple(_workload(w) for w in rows if not w.hidden),
        hidden=tuple(w.kind for w in rows if w.hidden),
        kernels=_kernels(passed) if passed else (),
        findings=passed.findings if passed else (),
        device=evaluation.device,
        wall_s=round(evaluation.wall_s, 1),
        recorded=verdict.recorded,
    )


def judged_text(answer: Judged, evaluation: Evaluation) -> str:
    """A verdict in a few lines."""
    head = f"Candidate `{answer.candidate}` on {answer.device}: {answer.message}"
    lines = [head]
    if answer.recorded:
        lines.append("This is the recorded verdict: the same sources were judged before.")
    if isinstance(evaluation, Passed):
        lines.append(f"{len(answer.hidden)} hidden workloads correct.")
        if answer.time is not None:
            word = "Beats" if answer.beats_baseline else "Does not beat"
            lines += [f"{word} the baseline beyond the error of the time.", times_text(evaluation)]
        lines += [f"Note: {finding}" for finding in answer.findings]
    return "\n\n".join(lines)


def loaded(run: OutsideRun) -> LoadedProblem:
    """All that there is to know before the first candidate."""
    problem, spec = run.problem, run.problem.spec
    evaluation = run.history.baseline_evaluation
    assert evaluation is not None, "a run is handed out once its baseline was judged"
    verdict = Verdict(evaluation, recorded=False)
    return LoadedProblem(
        run=run.name,
        run_directory=str(run.directory),
        problem=problem.name,
        digest=problem.digest,
        device=evaluation.device,
        description=problem_text(problem),
        entry_point=f"{spec.entry_file}::{spec.entry_symbol}",
        sources=problem.baseline.sources,
        workloads=tuple(
            WorkloadGiven(uuid=w.uuid, axes=dict(w.axes), timed=w.timed) for w in run.workloads
        ),
        rules=render("_rules", binding=spec.binding),
        baseline=judged(run, problem.baseline, verdict),
        confirmations_left=run.confirmations_left,
    )


def loaded_text(run: OutsideRun, answer: LoadedProblem) -> str:
    """The same as one text."""
    from astra_kernels.agents.llm.briefing.sources import plain_sources

    evaluation = run.history.baseline_evaluation
    times = times_text(evaluation) if isinstance(evaluation, Passed) else ""
    sources = plain_sources(answer.sources, run.problem.spec.entry_file)
    parts = (
        f"Run `{answer.run}` in {answer.run_directory}, problem digest {answer.digest}.",
        answer.description,
        f"# Workloads\n\n{workloads_text(run.workloads)}",
        f"# Device\n\n{device_text(evaluation)}",
        f"# The baseline, candidate `{answer.baseline.candidate}`\n\n{times}",
        sources,
        f"# Rules\n\n{answer.rules}",
    )
    return "\n\n".join(parts)


def diagnosed(run: OutsideRun, candidate: Candidate, found: tuple[Diagnosis, Passed]) -> Diagnosed:
    """What limits a kernel, with the counters."""
    diagnosis, evaluation = found
    return Diagnosed(
        run=run.name,
        candidate=candidate.id,
        bottleneck=diagnosis.bottleneck,
        summary=diagnosis.summary,
        evidence=tuple(
            EvidenceCited(metric=e.metric, value=e.value, meaning=e.meaning)
            for e in diagnosis.evidence
        ),
        lines=_busiest(evaluation, candidate.sources),
        counters=counters_text(evaluation),
    )


def diagnosed_text(answer: Diagnosed) -> str:
    """The same as one text."""
    cited = [f"- {e.metric} = {e.value:.4g}: {e.meaning}" for e in answer.evidence]
    lines = [f"- {b.file}:{b.line}: `{b.code}`" for b in answer.lines]
    parts = [
        f"Candidate `{answer.candidate}`: {answer.summary}",
        "\n".join(cited),
        *(["Busiest lines:\n" + "\n".join(lines)] if lines else []),
        answer.counters,
    ]
    return "\n\n".join(parts)


def confirmed(run: OutsideRun, event: WinnerRemeasured, recorded: bool) -> Confirmed:
    """The verdict of a second look, claim by claim."""
    confirmation = conclude(event.look)
    evaluation = event.evaluation
    return Confirmed(
        run=run.name,
        candidate=event.candidate,
        verdict=confirmation.verdict,
        claims={
            name: ClaimMade(verdict=claim.verdict, reason=claim.reason)
            for name, claim in confirmation.claims.items()
        },
        reasons=confirmation.reasons,
        facts=confirmation.facts,
        time=_time(evaluation.geomean) if isinstance(evaluation, Passed) else None,
        recorded=recorded,
        confirmations_left=run.confirmations_left,
    )


def confirmed_text(answer: Confirmed) -> str:
    """The same in a few lines."""
    claims = [f"- {name}: {c.verdict} ({c.reason})" for name, c in answer.claims.items()]
    left = f"{answer.confirmations_left} second looks are left in this run."
    again = ["This is the recorded verdict of its second look."] if answer.recorded else []
    head = f"Candidate `{answer.candidate}`: {answer.verdict}"
    return "\n".join([head, *claims, *answer.facts, *again, left])


def told(run: Run) -> HistoryTold:
    """What was tried in a run, hidden workloads left out even where the run knows them."""
    history = run.history
    looks = {r.candidate: conclude(_redacted_look(r).look).verdict for r in history.remeasured}
    benched = {a.candidate.id for a in history.attempts}
    best = next(iter(history.ranked()), None)
    return HistoryTold(
        run=run.directory.name,
        problem=run.problem.name,
        device=history.config.device if history.config else "",
        attempts=tuple(
            _attempt(number, attempt, looks)
            for number, attempt in enumerate(history.attempts, start=1)
        ),
        verified=tuple(s.candidate.id for s in history.screened if s.candidate.id not in benched),
        best=best.candidate.id if best else None,
        finished=history.finished.reason if history.finished else "",
    )


def told_text(answer: HistoryTold) -> str:
    """The same, a line for each attempt."""
    lines = [
        f"{a.number}. `{a.candidate}` from `{a.parent}`, {a.title}: {a.outcome}"
        + (f"; second look: {a.verdict}" if a.verdict else "")
        for a in answer.attempts
    ]
    lines += [f"`{name}` passed verify and was not benched." for name in answer.verified]
    head = f"Run {answer.run}: {answer.problem} on {answer.device}"
    end = f"Ended: {answer.finished}" if answer.finished else f"Fastest: {answer.best or 'none'}"
    return "\n".join([head, *(lines or ["Nothing has been tried yet."]), end])


def _redacted_look(event: WinnerRemeasured) -> WinnerRemeasured:
    looks = {
        name: redacted(evaluation)
        for name in ("evaluation", "control", "elsewhere")
        if (evaluation := getattr(event, name)) is not None
    }
    return event.model_copy(update=looks)


def _message(evaluation: Evaluation, sources: Mapping[str, str]) -> str:
    if isinstance(evaluation, Passed):
        return f"{outcome_line(evaluation)}."
    return failure_text(evaluation, sources)


def _attempt(number: int, attempt: Attempt, looks: Mapping[str, str]) -> AttemptMade:
    evaluation, candidate = redacted(attempt.evaluation), attempt.candidate
    return AttemptMade(
        number=number,
        candidate=candidate.id,
        parent=candidate.parent,
        title=candidate.title,
        outcome=outcome_line(evaluation),
        time=_time(evaluation.geomean) if isinstance(evaluation, Passed) else None,
        beats_baseline=beats_baseline(evaluation),
        verdict=looks.get(candidate.id, ""),
    )


def _time(timing: Timing | None) -> Time | None:
    if not isinstance(timing, Measured | Modelled):
        return None
    ratio, low, high = spread(timing)
    return Time(
        kind=timing.kind,
        baseline_us=timing.baseline_us,
        candidate_us=timing.candidate_us,
        ratio=ratio,
        low=low,
        high=high,
    )


def _workload(row: WorkloadResult) -> WorkloadOutcome:
    return WorkloadOutcome(
        uuid=row.uuid,
        axes=dict(row.axes),
        checked=row.checked,
        max_ulp=max((a.max_ulp for a in row.accuracy), default=None),
        baseline_max_ulp=max((a.max_ulp for a in row.baseline_accuracy), default=None),
        time=_time(row.timing),
    )


def _kernels(passed: Passed) -> tuple[Kernel, ...]:
    return tuple(
        Kernel(
            name=k.kernel,
            registers=k.registers,
            spill_bytes=k.spill_store_bytes + k.spill_load_bytes,
            static_shared_bytes=k.static_shared_bytes,
        )
        for k in passed.resources
    )


def _busiest(evaluation: Passed, sources: Mapping[str, str]) -> tuple[BusyLine, ...]:
    """Of the slowest public launch that was counted by line."""
    counted = [
        (w.timing.candidate_us, p.lines)
        for w in evaluation.workloads
        if isinstance(w.timing, Measured | Modelled) and not w.hidden
        for p in w.profiles
        if p.lines
    ]
    if not counted:
        return ()
    _, lines = max(counted, key=lambda c: c[0])
    return tuple(_busy(line, sources) for line in lines[:_MOST_LINES])


def _busy(line: LineProfile, sources: Mapping[str, str]) -> BusyLine:
    text = sources.get(line.file, "").split("\n")
    code = text[line.line - 1].strip() if 0 < line.line <= len(text) else ""
    return BusyLine(file=line.file, line=line.line, code=code, metrics=dict(line.metrics))
