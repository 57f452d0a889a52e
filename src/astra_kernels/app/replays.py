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
from astra_kernels.records.run import Event, RunConfig, WinnerRemeasured
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
    events = recorded[:1]
    journal = Journal(History.fold(events), events.append)
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
            fault = str(error)
    finished = run.history.finished is not None
    return Replayed(tuple(events), tuple(recorded), _compare(recorded, events, fault, finished))


def _answering(config: RunConfig, directory: Path) -> RunConfig:
    """The configuration with the recording in place of its models."""
    if config.agents == "rules":
        return config
    return config.model_copy(update={"model": f"replay:{directory}", "models": {}})


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
