"""What a finished call claims about itself, read strictly: nothing of a wrong type, sign or size passes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from astra_kernels.devices.device import CallReport, Dim3, Fault, Launch
from astra_kernels.jobs.conversation import is_number
from astra_kernels.jobs.wire import Tampered

_LARGEST_INT = 1 << 62


def call_report(data: Mapping[str, Any]) -> CallReport:
    """The report of one checked call.

    Raises:
        Tampered: a field is missing, of a wrong type, or no number that a device gives.
    """
    _fields(data, CallReport)
    code, fault, launches = data["code"], data["fault"], data["launches"]
    notes = data["notes"]
    if not isinstance(notes, list) or not all(isinstance(note, str) for note in notes):
        raise Tampered("the notes of a call are no texts")
    if isinstance(code, bool) or not isinstance(code, int) or not isinstance(launches, list):
        raise Tampered("the report of a call has fields of a wrong type")
    return CallReport(
        code=code,
        fault=None if fault is None else _fault(fault),
        launches=tuple(_launch(launch) for launch in launches),
        notes=tuple(notes),
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
    )
    blocks = launch.grid[0] * launch.grid[1] * launch.grid[2]
    if launch.sampled_blocks is not None:
        executed, total = launch.sampled_blocks
        if not 0 < executed <= total or total != blocks:
            raise Tampered("the sample of a launch does not fit its grid")
    return launch


@dataclass(frozen=True, kw_only=True)
class TimingReport:
    """What a timing child found for one workload; index 0 is the baseline, 1 the candidate."""

    rounds: list[tuple[float, float]]
    refused: tuple[str, str]
    long_us: Mapping[str, float]
    kernels: int = 0


def timing_report(data: Mapping[str, Any]) -> TimingReport:
    """The report of one timed call.

    Raises:
        Tampered: a field is missing, of a wrong type, or no time.
    """
    rounds, refused = data.get("rounds"), data.get("refused")
    long_us, kernels = data.get("long_us"), data.get("kernels", 0)
    if not isinstance(rounds, list) or not isinstance(long_us, dict):
        raise Tampered("the report of a timed call has fields of a wrong type")
    if not isinstance(refused, list) or [type(text) for text in refused] != [str, str]:
        raise Tampered("the report of a timed call has fields of a wrong type")
    times = [_time(t) for r in rounds for t in _sequence(r, 2)]
    if not rounds and not refused[1]:
        raise Tampered("the report of a timed call has no times")
    long_times = {str(program): _time(us) for program, us in long_us.items()}
    if not any(refused) and set(long_times) != {"0", "1"}:
        raise Tampered("the report of a timed call has no long replay")
    return TimingReport(
        rounds=list(zip(times[::2], times[1::2], strict=True)),
        refused=(refused[0], refused[1]),
        long_us=long_times,
        kernels=_count(kernels),
    )


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
