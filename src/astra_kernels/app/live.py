"""Progress while a run goes on: a live line in a terminal, a plain log elsewhere."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.markup import escape

from astra_kernels.app.render_calls import failure_line, taken
from astra_kernels.records.describe import describe
from astra_kernels.records.evaluation import Passed
from astra_kernels.records.history import History
from astra_kernels.records.run import (
    BaselineEvaluated,
    CandidateEvaluated,
    CandidateScreened,
    CodingRefused,
    Diagnosed,
    Event,
    MachineFaulted,
    ModelAsked,
    ModelFailed,
    Planned,
    RoundEnded,
    RunFinished,
    RunResumed,
    WinnerRemeasured,
    WorkloadsProposed,
)
from astra_kernels.records.wins import beats_baseline

Watch = Callable[[Event, History], None]


@contextmanager
def watcher(*, quiet: bool) -> Iterator[Watch]:
    """A function that shows each event as it is logged, on standard error."""
    console = Console(stderr=True, highlight=False, soft_wrap=True)
    if quiet:
        yield lambda event, history: None
    elif console.is_terminal:
        with console.status("building and judging the baseline") as status:

            def show(event: Event, history: History) -> None:
                _print(console, event, history)
                status.update(_next(event, history))

            yield show
    else:

        def log(event: Event, history: History) -> None:
            _print(console, event, history)
            sys.stderr.flush()

        yield log


def _print(console: Console, event: Event, history: History) -> None:
    text, style = _line(event)
    if isinstance(event, ModelFailed):
        text, style = f"              {failure_line(history.ledger, event)}", "yellow"
    if isinstance(event, RunFinished) and history.ledger.asked:
        text += f"; models: {taken(history.ledger)}"
    if text:
        console.print(f"[dim]{event.elapsed_s:7.1f} s[/]  [{style}]{escape(text)}[/]")


def _line(event: Event) -> tuple[str, str]:
    """What to say about an event, and in which style; nothing for the uninteresting ones."""
    match event:
        case RunResumed():
            return "resumed", "dim"
        case BaselineEvaluated():
            return f"baseline      {describe(event.evaluation)}", "default"
        case WorkloadsProposed():
            refused = f", {len(event.refused)} refused by the baseline" if event.refused else ""
            return f"testing       {len(event.accepted)} more workloads{refused}", "default"
        case Diagnosed():
            return f"round {event.round}       profiling: {event.diagnosis.summary}", "bold"
        case Planned():
            tried = ", ".join(p.technique for p in event.plans) or "nothing left to try"
            return f"              planning: {tried}", "default"
        case CodingRefused():
            return f"              coding: {event.plan.technique} refused: {event.reason}", "dim"
        case CandidateEvaluated():
            return (
                f"  {event.candidate.id}  {_short(event.candidate.title)}: {describe(event.evaluation)}",
                _style(event),
            )
        case CandidateScreened():
            return (
                f"  {event.candidate.id}  {_short(event.candidate.title)}: screened, {describe(event.evaluation)}",
                "dim",
            )
        case MachineFaulted():
            return f"machine fault: {event.detail}", "red"
        case WinnerRemeasured():
            verdict = "holds" if event.holds else "does not hold"
            return (
                f"second look   {event.candidate} {verdict}: {describe(event.evaluation)}",
                "bold",
            )
        case RunFinished():
            return f"finished      {event.reason}", "bold"
    return "", "default"


def _style(event: CandidateEvaluated) -> str:
    if beats_baseline(event.evaluation):
        return "green"
    return "default" if isinstance(event.evaluation, Passed) else "yellow"


def _short(title: str) -> str:
    return title if len(title) <= 72 else f"{title[:69]}..."


def _next(event: Event, history: History) -> str:
    if isinstance(event, ModelAsked):
        return (
            f"{event.role}: waiting for {event.model}; so far {taken(history.ledger)} or set aside"
        )
    match event:
        case BaselineEvaluated():
            return "checking the proposed workloads against the baseline"
        case Planned() | CandidateEvaluated() | CodingRefused():
            return "judging the next candidate"
        case RoundEnded() | WorkloadsProposed():
            return "planning"
    return "working"
