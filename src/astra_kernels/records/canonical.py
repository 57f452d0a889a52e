"""What a run decided, without when and where: two runs that decided the same have equal canonical events.

Left out: times of day, durations, facts of the host, the order in which models answered, requests that had to be
repeated, resumptions and faults of the machine. Models' words come last, by round, role and request.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from pydantic import TypeAdapter

from astra_kernels.records.run import (
    Event,
    MachineFaulted,
    ModelAnswered,
    ModelAsked,
    ModelFailed,
    RunResumed,
)

_EVENT: TypeAdapter[Event] = TypeAdapter(Event)
_PASSING = (RunResumed, MachineFaulted, ModelFailed)
_WHEN_AND_WHERE = frozenset(
    {
        "at",
        "elapsed_s",
        "wall_s",
        "safety_s",
        "stage_s",
        "seconds",
        "environment",
        "sandbox",
        "hidden_seed",
    }
)


def canonical(events: Iterable[Event]) -> list[dict[str, Any]]:
    """The events as plain JSON values, without when and where."""
    decisions: list[dict[str, Any]] = []
    asked: dict[int, ModelAsked] = {}
    answers: dict[tuple[int, str, str, str], dict[str, Any]] = {}
    for event in events:
        if isinstance(event, ModelAsked):
            asked[event.call] = event
        elif isinstance(event, ModelAnswered):
            request = asked[event.call]
            key = (request.round, request.role, request.key, event.text)
            answers[key] = dict(zip(("round", "role", "request", "answer"), key, strict=True))
        elif not isinstance(event, _PASSING):
            decisions.append(dict(_without(_EVENT.dump_python(event, mode="json"))))
    return [*decisions, *(answers[key] for key in sorted(answers))]


def _without(value: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    for name, part in value.items():
        if name not in _WHEN_AND_WHERE:
            yield name, _plain(part)


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return dict(_without(value))
    return [_plain(v) for v in value] if isinstance(value, list) else value
