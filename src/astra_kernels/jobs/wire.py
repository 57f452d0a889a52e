"""What a child is asked and what it answers: plain records, JSON over memory and a pipe.

A request names libraries, buffers and argument values. It holds no seed, no reference, no expected value.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Literal, get_args

from astra_kernels.devices.device import CArgument
from astra_kernels.json_text import parse_json


@dataclass(frozen=True, kw_only=True)
class Buffer:
    """One tensor or workspace in the image of a call."""

    name: str
    offset: int
    size: int
    stored: int
    """Bytes in the image: all of them, or fewer that are to be repeated, or none."""
    flips: int = 0
    """Bits of every 64-bit word that chance turns over before each timed call."""


@dataclass(frozen=True, kw_only=True)
class Argument:
    """One C argument: the address of a buffer, the stream, or a value."""

    ctype: str
    buffer: int | None = None
    value: bool | int | float = 0

    def bound(self, addresses: list[int], stream: int) -> CArgument:
        """The argument with device addresses filled in."""
        if self.buffer is not None:
            return CArgument("pointer", addresses[self.buffer])
        if self.ctype == "stream":
            return CArgument("stream", stream)
        return CArgument(self.ctype, self.value)


@dataclass(frozen=True, kw_only=True)
class Call:
    """One workload: where its initial bytes are, and where the bytes after the call go."""

    uuid: str
    image_fd: int
    """Sealed: inputs in place, everything else poisoned."""
    result_fds: tuple[int, ...]
    """One per program, and one for a chain when timing; writable, of the same size."""
    size: int
    buffers: tuple[Buffer, ...]
    arguments: tuple[Argument, ...]
    sampled: bool = False
    """Run a sample of the blocks only (simulated devices)."""
    checked_order: int | None = None
    """Look for races and unwritten memory, with warps and blocks in this order (simulated devices)."""
    separate: bool = False
    """Allocate every buffer by itself and write only the bytes that are stored: for tools that watch memory."""


@dataclass(frozen=True, kw_only=True)
class Program:
    """A built library and its entry point."""

    library: str
    symbol: str
    registers: Mapping[str, int] = field(default_factory=dict)
    """By mangled kernel name; the model of a simulated device needs them."""


@dataclass(frozen=True)
class Turn:
    """What a timed call found in its buffer set: the key of the filling, and which set it was."""

    key: int
    index: int


@dataclass(frozen=True, kw_only=True)
class TimingPlan:
    """How long a timing child measures each workload."""

    min_rounds: int
    max_rounds: int
    target_interval: float
    seconds: float
    long_replay_us: float
    """How long the replay takes that the supervisor times too."""
    warm: bool = False
    """Also time calls whose data lie in the L2 cache."""


@dataclass(frozen=True, kw_only=True)
class Request:
    """Everything one child does."""

    task: Literal["check", "time", "profile"]
    """`profile` makes the calls of `check`, and nothing else on the device, under a tool."""
    device: str
    cuda_runtime: str
    """Path of the shared CUDA runtime that the programs were linked against."""
    programs: tuple[Program, ...]
    calls: tuple[Call, ...]
    timing: TimingPlan | None = None

    def encode(self) -> bytes:
        """JSON."""
        return json.dumps(asdict(self), allow_nan=False).encode()


def decode_request(raw: bytes) -> Request:
    """The reverse of `Request.encode`."""
    fields = json.loads(raw)
    timing = fields["timing"]
    return Request(
        task=fields["task"],
        device=fields["device"],
        cuda_runtime=fields["cuda_runtime"],
        programs=tuple(Program(**p) for p in fields["programs"]),
        calls=tuple(_call(c) for c in fields["calls"]),
        timing=None if timing is None else TimingPlan(**timing),
    )


def _call(raw: dict[str, Any]) -> Call:
    changes = {
        "result_fds": tuple(raw["result_fds"]),
        "buffers": tuple(Buffer(**b) for b in raw["buffers"]),
        "arguments": tuple(Argument(**a) for a in raw["arguments"]),
    }
    return Call(**{**raw, **changes})


EventKind = Literal["ready", "loading", "begin", "done", "failed", "machine", "mark", "end"]
"""`loading` comes before the first foreign code runs."""


@dataclass(frozen=True, kw_only=True)
class Event:
    """One line of a child's answer."""

    kind: EventKind
    index: int = -1
    """Which call."""
    detail: str = ""
    data: dict[str, Any] = field(default_factory=dict)

    def encode(self) -> bytes:
        """JSON on one line, without its end."""
        return json.dumps(asdict(self), allow_nan=False).encode()


class Tampered(Exception):
    """The pipe of a child holds what the child cannot have written: the candidate did."""


def decode_event(line: bytes) -> Event:
    """The reverse of `Event.encode`.

    Raises:
        ValueError: the line is not an event; a candidate can write to the pipe of its process.
    """
    raw = parse_json(line, parse_constant=_no_number)
    if not isinstance(raw, dict) or set(raw) != {"kind", "index", "detail", "data"}:
        raise ValueError("an event has a kind, an index, a detail and data")
    event = Event(**raw)
    if event.kind not in get_args(EventKind) or not isinstance(event.kind, str):
        raise ValueError("there is no such kind of event")
    if isinstance(event.index, bool) or not isinstance(event.index, int):
        raise ValueError("the index of an event is a whole number")
    if not isinstance(event.detail, str) or not isinstance(event.data, dict):
        raise ValueError("the detail of an event is text, its data an object")
    return event


def _no_number(text: str) -> float:
    raise ValueError(f"{text} is no number")
