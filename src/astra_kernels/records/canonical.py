"""What a run decided, without when and where: two runs that decided the same have equal canonical events.

Left out: times of day, durations, facts of the host, the order in which models answered, requests that had to be
repeated, resumptions and faults of the machine. Models' words are apart, by round, role and request.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from pydantic import ConfigDict, TypeAdapter

from astra_kernels.records.run import (
    Event,
    MachineFaulted,
    ModelAnswered,
    ModelAsked,
    ModelFailed,
    RunResumed,
)

_EVENT: TypeAdapter[Event] = TypeAdapter(Event, config=ConfigDict(defer_build=True))
_PASSING = (RunResumed, MachineFaulted, ModelAsked, ModelAnswered, ModelFailed)
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
    """The events as plain JSON values, without when and where, and without models' words."""
    return [
        dict(_without(_EVENT.dump_python(event, mode="json")))
        for event in events
        if not isinstance(event, _PASSING)
    ]


def exchanges(events: Iterable[Event]) -> list[tuple[int, str, str, str]]:
    """Round, role, digest of the request and answer of every answered request, in that order."""
    asked: dict[int, ModelAsked] = {}
    found: set[tuple[int, str, str, str]] = set()
    for event in events:
        if isinstance(event, ModelAsked):
            asked[event.call] = event
        elif isinstance(event, ModelAnswered):
            request = asked[event.call]
            found.add((request.round, request.role, request.key, event.text))
    return sorted(found)


def _without(value: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    for name, part in value.items():
        if name not in _WHEN_AND_WHERE:
            yield name, _plain(part)


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return dict(_without(value))
    return [_plain(v) for v in value] if isinstance(value, list) else value
