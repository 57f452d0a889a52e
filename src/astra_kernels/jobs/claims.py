"""What a finished call claims about itself, read strictly: nothing of a wrong type, sign or size passes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from astra_kernels.devices.device import CallReport, Dim3, Fault, Launch
from astra_kernels.jobs.conversation import is_number
from astra_kernels.jobs.wire import Tampered, Turn
from astra_kernels.records.evaluation import LineProfile

_LARGEST_INT = 1 << 62
_MOST_LINES = 64


def call_report(data: Mapping[str, Any]) -> CallReport:
    """The report of one checked call.

    Raises:
        Tampered: a field is missing, of a wrong type, or no number that a device gives.
    """
    _fields(data, CallReport)
    code, fault, launches = data["code"], data["fault"], data["launches"]
    notes = data["notes"]
    if not isinstance(data["message"], str):
        raise Tampered("the message of a call is no text")
    if not isinstance(notes, list) or not all(isinstance(note, str) for note in notes):
        raise Tampered("the notes of a call are no texts")
    if isinstance(code, bool) or not isinstance(code, int) or not isinstance(launches, list):
        raise Tampered("the report of a call has fields of a wrong type")
    return CallReport(
        code=code,
        fault=None if fault is None else _fault(fault),
        launches=tuple(_launch(launch) for launch in launches),
        notes=tuple(notes),
        message=data["message"],
    )


def _fault(raw: object) -> Fault:
    data = _fields(raw, Fault)
    file, line = data["file"], data["line"]
    texts = [data["kind"], data["message"], data["kernel"], "" if file is None else file]
    if not all(isinstance(text, str) for text in texts):
        raise Tampered("the report of a fault has fields of a wrong type")
    return Fault(
        kind=data["kind"],
        message=data["message"],
        kernel=data["kernel"],
        block=None if data["block"] is None else _dim3(data["block"]),
        thread=None if data["thread"] is None else _dim3(data["thread"]),
        file=file,
        line=None if line is None else _count(line),
    )


def _launch(raw: object) -> Launch:
    data = _fields(raw, Launch)
    metrics, modelled, sampled = data["metrics"], data["modelled_us"], data["sampled_blocks"]
    if not isinstance(data["kernel"], str) or not isinstance(metrics, dict):
        raise Tampered("the report of a launch has fields of a wrong type")
    if not all(is_number(value) for value in metrics.values()):
        raise Tampered("a counter of a launch is no finite number")
    if modelled is not None and not (is_number(modelled) and modelled > 0):
        raise Tampered("the modelled time of a launch is no positive number")
    launch = Launch(
        kernel=data["kernel"],
        grid=_dim3(data["grid"]),
        block=_dim3(data["block"]),
        dynamic_shared_bytes=_count(data["dynamic_shared_bytes"]),
        metrics=metrics,
        modelled_us=modelled,
        sampled_blocks=None if sampled is None else _pair(sampled),
        lines=_line_profiles(data["lines"]),
    )
    blocks = launch.grid[0] * launch.grid[1] * launch.grid[2]
    if launch.sampled_blocks is not None:
        executed, total = launch.sampled_blocks
        if not 0 < executed <= total or total != blocks:
            raise Tampered("the sample of a launch does not fit its grid")
    return launch


def _line_profiles(raw: object) -> tuple[LineProfile, ...]:
    if not isinstance(raw, list | tuple) or len(raw) > _MOST_LINES:
        raise Tampered("the source lines of a launch are no short list")
    return tuple(_line_profile(line) for line in raw)


def _line_profile(raw: object) -> LineProfile:
    data = _fields(raw, LineProfile)
    file, metrics = data["file"], data["metrics"]
    if not isinstance(file, str) or not isinstance(metrics, dict):
        raise Tampered("a source line of a launch has fields of a wrong type")
    if not all(is_number(value) for value in metrics.values()):
        raise Tampered("a counter of a source line is no finite number")
    return LineProfile(file=file, line=_count(data["line"]), metrics=metrics)


@dataclass(frozen=True, kw_only=True)
class ChainReport:
    """Chains of producer, call and consumer."""

    rounds: list[tuple[float, ...]]
    """Microseconds of one chain: each program as it launches, then each with every kernel waiting."""
    turn: Turn
    """What the verified call found."""


@dataclass(frozen=True, kw_only=True)
class TimingReport:
    """What a timing child found for one workload; of two programs the first is the baseline."""

    rounds: list[tuple[float, ...]]
    """Microseconds of a call of each program, cold."""
    ended: list[float]
    """When each round ended, by the machine's monotonic clock."""
    turns: list[Turn]
    """What the verified calls found, by program."""
    refused: list[str]
    long_us: list[float]
    kernels: int = 0
    warm: list[tuple[float, ...]] = field(default_factory=list)
    chain: ChainReport | None = None


def timing_report(data: Mapping[str, Any], programs: int) -> TimingReport:
    """The report of one timed call of so many programs.

    Raises:
        Tampered: a field is missing, of a wrong type, or no time.
    """
    if set(data) != set(TimingReport.__dataclass_fields__):
        raise Tampered("the report of a timed call does not have its fields")
    refused = _texts(data["refused"], programs)
    rounds, warm = _rounds(data["rounds"], programs), _rounds(data["warm"], programs)
    if not rounds and not refused[-1]:
        raise Tampered("the report of a timed call has no times")
    long_us = _list(data["long_us"])
    if len(long_us) != (0 if any(refused) else programs):
        raise Tampered("the report of a timed call has no long replay")
    return TimingReport(
        rounds=rounds,
        ended=[_time(t) for t in _sequence(data["ended"], len(rounds))],
        turns=[_turn(t) for t in _sequence(data["turns"], programs if rounds else 0)],
        refused=refused,
        long_us=[_time(us) for us in long_us],
        kernels=_count(data["kernels"]),
        warm=warm,
        chain=None if data["chain"] is None else _chain(data["chain"], programs),
    )


def _chain(raw: object, programs: int) -> ChainReport:
    data = _fields(raw, ChainReport)
    rounds = _rounds(data["rounds"], 2 * programs)
    if not rounds:
        raise Tampered("the report of a chain has no times")
    return ChainReport(rounds=rounds, turn=_turn(data["turn"]))


def _turn(raw: object) -> Turn:
    data = _fields(raw, Turn)
    key = data["key"]
    if isinstance(key, bool) or not isinstance(key, int) or not 0 <= key < 1 << 64:
        raise Tampered("the key of a filling is no 64-bit number")
    return Turn(key=key, index=_count(data["index"]))


def _rounds(raw: object, programs: int) -> list[tuple[float, ...]]:
    return [tuple(_time(t) for t in _sequence(r, programs)) for r in _list(raw)]


def _list(raw: object) -> list[Any]:
    if not isinstance(raw, list):
        raise Tampered("what should be a list is not")
    return raw


def _texts(raw: object, length: int) -> list[str]:
    texts = list(_sequence(raw, length))
    if not all(isinstance(text, str) for text in texts):
        raise Tampered("what should be texts is not")
    return texts


def _fields(raw: object, kind: type) -> Mapping[str, Any]:
    names = set(getattr(kind, "__dataclass_fields__", ()))
    if not isinstance(raw, Mapping) or set(raw) != names:
        raise Tampered(f"a {kind.__name__} on the pipe does not have its fields")
    return raw


def _time(value: Any) -> float:
    if not is_number(value) or value <= 0:
        raise Tampered("a time is no positive number")
    return float(value)


def _count(value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < _LARGEST_INT:
        raise Tampered("a count is no natural number")
    return value


def _sequence(value: object, length: int) -> Sequence[Any]:
    if not isinstance(value, list) or len(value) != length:
        raise Tampered(f"what should be {length} numbers is not")
    return value


def _pair(value: object) -> tuple[int, int]:
    first, second = (_count(v) for v in _sequence(value, 2))
    return first, second


def _dim3(value: object) -> Dim3:
    x, y, z = (_count(v) for v in _sequence(value, 3))
    return x, y, z
