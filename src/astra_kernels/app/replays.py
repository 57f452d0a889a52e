"""`astra replay`: run a recorded run again from what it recorded; no network, no device, no compiler."""

from __future__ import annotations

import difflib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from astra_kernels.app.runs import PROBLEM, read_notes, read_run
from astra_kernels.app.team import Engagement, team_of
from astra_kernels.errors import AstraError, RunError
from astra_kernels.evaluation.replay import ReplayEvaluator
from astra_kernels.optimize import Optimizer
from astra_kernels.records.canonical import canonical, exchanges
from astra_kernels.records.history import History
from astra_kernels.records.journal import Journal
from astra_kernels.records.run import Budget, Event, RunConfig, RunFinished, WinnerRemeasured
from astra_kernels.store import RunStore


@dataclass(frozen=True)
class Replayed:
    """A run that was run again."""

    events: tuple[Event, ...]
    recorded: tuple[Event, ...]
    divergence: str = ""
    """Where the two part, in lines of text; nothing when they decided the same."""


def replay(directory: Path) -> Replayed:
    """Run a recorded run again with today's agents.

    A run that was not finished is followed as far as it went.

    Raises:
        RunError: the directory holds no run, or is damaged.
    """
    run = read_run(directory)
    recorded = RunStore.open(directory).events()
    config = run.history.config
    assert config is not None, "read_run refuses such a log"
    answering = _answering(config, directory)
    engaged = Engagement(run.problem, answering, directory / PROBLEM, read_notes(directory))
    evaluator = ReplayEvaluator.from_events(recorded)
    log = _Log(recorded[:1], _decisions_in_time(recorded, config.budget))
    journal = Journal(History.fold(log.events), log.write)
    fault, screen = "", config.screen
    with team_of(engaged, journal) as team:
        loop = Optimizer(
            problem=run.problem,
            config=config,
            team=team,
            evaluator=evaluator,
            journal=journal,
            fresh_seed=lambda: 0,
            screen=(lambda c, _: evaluator.screened(c, screen)) if screen else None,
            elsewhere=evaluator.elsewhere if _has_second_device(recorded) else None,
        )
        try:
            loop.run()
        except RunError:
            raise
        except (
            AstraError
        ) as error:  # a divergence of a model or of a candidate, or the end of the record
            if log.is_full and run.history.finished is not None:
                log.most = None
                loop.evaluator = ReplayEvaluator.from_events(recorded)  # some is used up already
                ended = run.history.finished
                loop.end(ended.reason, spent_in=ended.spent_in)
            else:
                fault = str(error)
    finished = run.history.finished is not None
    divergence = _compare(recorded, log.events, fault, finished)
    return Replayed(tuple(log.events), tuple(recorded), divergence)


def _answering(config: RunConfig, directory: Path) -> RunConfig:
    """The configuration with the recording in place of its models, and without limits whose end is on record.

    What tries in vain and requests in flight took of a budget is not asked again, nor does time pass as it did.
    """
    lifted = {"seconds": None, "requests": None, "tokens": None, "usd": None}
    config = config.model_copy(update={"budget": config.budget.model_copy(update=lifted)})
    if config.agents == "rules":
        return config
    return config.model_copy(update={"model": f"replay:{directory}", "models": {}})


class _EndOfRecord(AstraError):
    """The replay would do what the recorded run had no time for."""


@dataclass
class _Log:
    """The events of a replay; no more of them than were recorded, where the recorded run may have run out of time."""

    events: list[Event]
    most: int | None = None
    """Decisions of the recorded search; None where time was not its end."""

    def write(self, event: Event) -> None:
        """Add an event, unless it goes beyond the record."""
        if self.most is not None and self.is_full and canonical((event,)):
            raise _EndOfRecord("the recorded run had no time for more")
        self.events.append(event)

    @property
    def is_full(self) -> bool:
        """Whether everything is there that the recorded search decided."""
        return len(canonical(self.events)) == self.most


def _decisions_in_time(recorded: Sequence[Event], budget: Budget) -> int | None:
    """How much a search decided until its time was up; None where that was not its end.

    A search that could not ask any more may have had no time to judge all that was written, either.
    """
    finished = recorded[-1]
    if budget.seconds is None or not isinstance(finished, RunFinished):
        return None
    if finished.spent_in is None and finished.reason != budget.out_of_time:
        return None
    return len(canonical(e for e in recorded[:-1] if not isinstance(e, WinnerRemeasured)))


def _has_second_device(events: Sequence[Event]) -> bool:
    return any(isinstance(e, WinnerRemeasured) and e.elsewhere is not None for e in events)


def _compare(recorded: Sequence[Event], again: Sequence[Event], fault: str, finished: bool) -> str:
    """Where two runs part; when the recorded one was not finished, it has only to be the beginning of the other."""
    old, new = (_lines(canonical(events)) for events in (recorded, again))
    said, said_again = set(exchanges(recorded)), set(exchanges(again))
    begins = old == new[: len(old)] and said <= said_again
    if begins and not (finished and (len(old) < len(new) or said < said_again)):
        return ""
    lines = difflib.unified_diff(old, new, "recorded", "again", lineterm="", n=1)
    shown = [line if len(line) < 400 else line[:400] + " ..." for line in lines][:12]
    shown += [
        f"round {number}, {role}: {what}"
        for what, some in (
            ("not asked again", said - said_again),
            ("asked anew", said_again - said),
        )
        for number, role, _, _ in sorted(some)[:4]
    ]
    return "\n".join([*shown, fault] if fault else shown)


def _lines(events: Sequence[dict[str, Any]]) -> list[str]:
    return [json.dumps(event, sort_keys=True) for event in events]
