"""Runs and verdicts as tables for a terminal, or as JSON."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from astra_kernels.app.render_calls import calls_document, calls_lines
from astra_kernels.app.render_search import search
from astra_kernels.app.render_times import proof_lines, time_lines
from astra_kernels.app.runs import BEST, Run
from astra_kernels.records.candidate import Candidate
from astra_kernels.records.confirmation import Confirmation, SecondLook, conclude
from astra_kernels.records.describe import describe, describe_timing
from astra_kernels.records.evaluation import (
    Evaluation,
    Measured,
    Modelled,
    Passed,
    Timing,
    WorkloadResult,
)
from astra_kernels.records.guarded import ahead_at_some_sizes, some_sizes_said
from astra_kernels.records.problem import Problem
from astra_kernels.records.wins import beats_baseline

_ANSWERS = {True: "yes", False: "no", None: "not established"}


@dataclass(frozen=True)
class Judged:
    """One candidate and what happened to it."""

    name: str
    candidate: Candidate
    evaluation: Evaluation


def run(run: Run) -> None:
    """Print what a run tried and what came of it."""
    console = Console(highlight=False)
    history = run.history
    console.print(
        f"[bold]{escape(run.problem.name)}[/] on {history.config.device if history.config else '?'}"
    )
    if history.baseline_evaluation is not None:
        console.print(f"baseline: {escape(describe(history.baseline_evaluation))}")
    search(console, history)
    for line in calls_lines(history):
        console.print(escape(line))
    _conclusion(console, run)


def _conclusion(console: Console, run: Run) -> None:
    finished = run.history.finished
    if finished is None:
        console.print(f"not finished; go on with: astra optimize --resume {run.directory}")
        return
    console.print(escape(f"finished: {finished.reason} ({run.history.elapsed_s:.0f} s)"))
    if finished.best is None:
        console.print(
            "[bold]no improvement found[/]: no candidate beat the baseline beyond the error of the time"
        )
        if (ahead := ahead_at_some_sizes(run.history)) is not None:
            _workload_table(console, ahead.evaluation)
            console.print(escape(some_sizes_said(ahead)))
        return
    remeasured = next(r for r in run.history.remeasured if r.candidate == finished.best)
    _workload_table(console, remeasured.evaluation)
    _hidden(console, remeasured.evaluation)
    verdict = describe(remeasured.evaluation)
    console.print(
        f"[bold green]best: {finished.best}[/] {escape(verdict)}, judged again with fresh seeds"
    )
    _confirmation(console, conclude(remeasured.look))
    console.print(f"files and changes.diff: {run.directory / BEST}")


_STYLES = {"held": "green", "failed": "red", "confirmed": "bold green", "refuted": "bold red"}


def second_look(problem: Problem, name: str, candidate: Candidate, look: SecondLook) -> None:
    """Print what a second look established."""
    console = Console(highlight=False)
    console.print(f"[bold]{escape(name)}[/] ({candidate.id}) for {escape(problem.name)}")
    if look.evaluation is not None:
        console.print(escape(f"on {look.evaluation.device}: {describe(look.evaluation)}"))
        _workload_table(console, look.evaluation)
        _details(console, look.evaluation)
    _confirmation(console, conclude(look))


def _confirmation(console: Console, confirmation: Confirmation) -> None:
    for name, claim in confirmation.claims.items():
        style = _STYLES.get(claim.verdict, "yellow")
        console.print(f"  {name}: [{style}]{claim.verdict}[/] ({escape(claim.reason)})")
    for fact in confirmation.facts:
        console.print(escape(f"  {fact}"), style="dim")
    verdict = confirmation.verdict
    console.print(f"[{_STYLES.get(verdict, 'bold yellow')}]{verdict}[/]")


def judged(problem: Problem, results: Iterable[Judged]) -> None:
    """Print verdicts on candidates, with a table of workloads for each that passed."""
    console = Console(highlight=False)
    for result in results:
        console.print(
            f"[bold]{escape(result.name)}[/] ({result.candidate.id}) for {escape(problem.name)}"
        )
        console.print(escape(f"on {result.evaluation.device}: {describe(result.evaluation)}"))
        _workload_table(console, result.evaluation)
        _hidden(console, result.evaluation)
        _details(console, result.evaluation)


def _hidden(console: Console, evaluation: Evaluation) -> None:
    """How hidden workloads went, and whether the bits are the same again and in another batch, beside the baseline."""
    if evaluation.hidden:
        seed = "" if evaluation.hidden_seed is None else f" (of seed {evaluation.hidden_seed})"
        console.print(escape(f"decided by a hidden workload: {evaluation.hidden}{seed}"))
    if not isinstance(evaluation, Passed):
        return
    right = sum(w.hidden for w in evaluation.workloads)
    if right or evaluation.dropped:
        line = f"{right} hidden workloads correct"
        if evaluation.dropped:
            kinds = "; ".join(dict.fromkeys(d.kind for d in evaluation.dropped))
            line += f"; {len(evaluation.dropped)} dropped, the baseline fails on: {kinds}"
        console.print(escape(line))
    own, baseline = evaluation.consistency, evaluation.baseline_consistency
    if own is None or baseline is None:
        return
    for name, mine, theirs in (
        ("repeatable", own.repeatable, baseline.repeatable),
        ("batch invariant", own.batch_invariant, baseline.batch_invariant),
    ):
        console.print(f"{name}: {_ANSWERS[mine]} (baseline: {_ANSWERS[theirs]})")
    if own.detail:
        console.print(escape(f"  {own.detail}"), style="dim")


def _details(console: Console, evaluation: Evaluation) -> None:
    if isinstance(evaluation, Passed):
        for kernel in evaluation.resources:
            spills = kernel.spill_store_bytes + kernel.spill_load_bytes
            console.print(
                escape(
                    f"  {kernel.kernel}: {kernel.registers} registers, {spills} bytes spilled, "
                    f"{kernel.static_shared_bytes} bytes static shared memory"
                ),
                style="dim",
            )
        for line in proof_lines(evaluation):
            console.print(escape(f"  {line}"), style="dim")
        for finding in evaluation.findings:
            console.print(escape(f"  note: {finding}"), style="dim")
    for name, value in evaluation.environment.items():
        console.print(escape(f"  {name}: {value}"), style="dim")


def _workload_table(console: Console, evaluation: Evaluation) -> None:
    if not isinstance(evaluation, Passed):
        return
    columns = ["workload", "max error, ulp (baseline)", *_time_columns(evaluation)]
    table = Table(*columns)
    public = tuple(w for w in evaluation.workloads if not w.hidden)
    timed = tuple(w for w in public if w.timing is not None)
    for workload in timed or public:
        cells = (workload.uuid, _accuracy(workload), *_times(workload.timing))
        table.add_row(*map(escape, cells[: len(columns)]))
    if evaluation.geomean is not None:
        table.add_section()
        table.add_row("geometric mean", "", *map(escape, _times(evaluation.geomean)))
    console.print(table)
    for note in dict.fromkeys(w.note for w in public if not w.checked and w.note):
        console.print(escape(f"not checked: {note}"))
    for line in time_lines(evaluation):
        console.print(escape(line))
    others = len(public) - len(timed)
    if timed and others:
        console.print(f"{others} more workloads are correct; they are not timed")


def _time_columns(evaluation: Passed) -> tuple[str, ...]:
    """Headings that say what kind of time it is; none where nothing was timed."""
    timings = [w.timing for w in evaluation.workloads if w.timing is not None]
    if any(isinstance(t, Modelled) for t in timings):
        return ("baseline, modelled us", "candidate, modelled us", "modelled gain")
    if any(isinstance(t, Measured) for t in timings):
        return ("baseline, measured us", "candidate, measured us", "ratio [95 % interval]")
    return ("baseline us", "candidate us", "time") if timings else ()


def _accuracy(workload: WorkloadResult) -> str:
    if not workload.checked:
        return "not checked"
    before = {a.output: a.max_ulp for a in workload.baseline_accuracy}
    return ", ".join(
        f"{a.output} {a.max_ulp:.2f}" + (f" ({before[a.output]:.2f})" if a.output in before else "")
        for a in workload.accuracy
    )


def _times(timing: Timing | None) -> tuple[str, str, str]:
    match timing:
        case Measured():
            interval = f"{timing.ratio:.3f} [{timing.ratio_low:.3f}, {timing.ratio_high:.3f}]"
            return f"{timing.baseline_us:.2f}", f"{timing.candidate_us:.2f}", interval
        case Modelled():
            sampled = " (from a sample of blocks)" if timing.sampled else ""
            return (
                f"{timing.baseline_us:.2f}",
                f"{timing.candidate_us:.2f}",
                f"{timing.gain:.3f}{sampled}",
            )
        case None:
            return "", "", "not timed"
    return "", "", describe_timing(timing)


def run_json(run: Run) -> str:
    """A run as one JSON document."""
    history = run.history
    document: dict[str, Any] = {
        "run": str(run.directory),
        "problem": run.problem.name,
        "config": history.config.model_dump(mode="json") if history.config else None,
        "elapsed_s": history.elapsed_s,
        "rounds": history.rounds_ended,
        "baseline": _evaluation(history.baseline_evaluation),
        "attempts": [
            {
                "round": a.round,
                "candidate": a.candidate.id,
                "parent": a.candidate.parent,
                "title": a.candidate.title,
                "plan": a.plan.model_dump(mode="json"),
                "beats_baseline": beats_baseline(a.evaluation),
                "evaluation": _evaluation(a.evaluation),
            }
            for a in history.attempts
        ],
        "refusals": [
            {
                "round": r.round,
                "technique": r.plan.technique,
                "reason": r.reason,
                "unanswered": r.unanswered,
            }
            for r in history.refusals
        ],
        "models": calls_document(history.ledger),
        "second_looks": [
            {"candidate": r.candidate, "holds": r.holds, **_look(r.look)}
            for r in history.remeasured
        ],
        "finished": history.finished.reason if history.finished else None,
        "best": history.finished.best if history.finished else None,
        "best_files": str(run.directory / BEST)
        if history.finished and history.finished.best
        else None,
    }
    return json.dumps(document, indent=1)


def judged_json(problem: Problem, results: Iterable[Judged]) -> str:
    """Verdicts as one JSON document."""
    rows = [
        {"name": r.name, "candidate": r.candidate.id, "evaluation": _evaluation(r.evaluation)}
        for r in results
    ]
    return json.dumps({"problem": problem.name, "results": rows}, indent=1)


def second_look_json(problem: Problem, name: str, candidate: Candidate, look: SecondLook) -> str:
    """A second look as one JSON document."""
    document = {"problem": problem.name, "name": name, "candidate": candidate.id, **_look(look)}
    return json.dumps(document, indent=1)


def _look(look: SecondLook) -> dict[str, Any]:
    confirmation = conclude(look)
    return {
        "verdict": confirmation.verdict,
        "reasons": confirmation.reasons,
        "claims": {name: asdict(claim) for name, claim in confirmation.claims.items()},
        "facts": confirmation.facts,
        "evaluation": _evaluation(look.evaluation),
        "control": _evaluation(look.control),
        "elsewhere": _evaluation(look.elsewhere),
    }


def _evaluation(evaluation: Evaluation | None) -> dict[str, Any] | None:
    if evaluation is None:
        return None
    return {**asdict(evaluation), "summary": describe(evaluation)}
