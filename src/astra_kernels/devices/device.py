"""The seam to a device: memory, calls of a C entry point, and facts; real and simulated GPUs look alike.

A device lives in a child process. What a kernel does wrong comes back as data in a `CallReport`; what the
machine does wrong is raised as a MachineFault.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from astra_kernels.records.evaluation import LineProfile

Dim3 = tuple[int, int, int]


@dataclass(frozen=True)
class CArgument:
    """A C argument: its type as in a job's arguments, and its value (an address for pointer and stream)."""

    ctype: str
    value: bool | int | float


@dataclass(frozen=True, kw_only=True)
class Facts:
    """What a device is."""

    name: str
    multiprocessors: int
    clock_mhz: float
    l2_bytes: int
    memory_bytes: int
    bandwidth_gb_s: float
    """Of device memory, from the datasheet: memory clock times bus width."""
    driver: str = ""


@dataclass(frozen=True, kw_only=True)
class Launch:
    """One kernel launch of a simulated device, with what it counted."""

    kernel: str
    grid: Dim3
    block: Dim3
    dynamic_shared_bytes: int
    metrics: Mapping[str, float]
    modelled_us: float | None = None
    sampled_blocks: tuple[int, int] | None = None
    lines: tuple[LineProfile, ...] = ()
    """The busiest source lines first."""


@dataclass(frozen=True, kw_only=True)
class Fault:
    """What went wrong in a kernel or launcher.

    `kind` is a simulator check such as `global_bounds`, or one of `error` (a CUDA error), `step_limit`,
    `device_to_host`, `stream` and `not_simulated`.
    """

    kind: str
    message: str
    kernel: str = ""
    block: Dim3 | None = None
    thread: Dim3 | None = None
    file: str | None = None
    line: int | None = None


UNCHECKED = "the checks ran out of memory, and some accesses were not looked at"
"""A note of a checked call."""


@dataclass(frozen=True, kw_only=True)
class CallReport:
    """How one call of an entry point ended, after everything it enqueued had finished."""

    code: int
    """What the entry point returned; 0 is success, else a cudaError_t."""
    fault: Fault | None = None
    launches: tuple[Launch, ...] = ()
    notes: tuple[str, ...] = ()
    """What is suspicious about the call, but no fault."""


class ProgramRefused(Exception):
    """A library cannot be loaded on this device, or needs something that is not simulated."""


Entry = Callable[..., int]
"""A C function that returns int; takes the results of `c_value`."""


class Device(Protocol):
    """One opened device."""

    @property
    def facts(self) -> Facts:
        """What it is."""

    @property
    def separate_buffers(self) -> bool:
        """Whether buffers are best allocated one by one because every access is checked."""

    @property
    def stream(self) -> int:
        """The stream for calls."""

    def allocate(self, size: int) -> int:
        """Allocates `size` bytes and returns their address (0 for none)."""

    def free(self, address: int) -> None:
        """Gives an allocation back."""

    def write(self, address: int, data: np.ndarray) -> None:
        """Copies bytes to the device."""

    def read(self, address: int, into: np.ndarray) -> None:
        """Copies bytes from the device."""

    def load(self, library: Path, symbol: str, registers: Mapping[str, int]) -> Entry:
        """Loads a built library and finds its entry point.

        Args:
            library: the shared library.
            symbol: the entry point.
            registers: of a thread, by mangled kernel name.

        Raises:
            ProgramRefused: it cannot be loaded here.
        """

    def call(
        self,
        entry: Entry,
        arguments: Sequence[CArgument],
        *,
        sampled: bool = False,
        checked_order: int | None = None,
    ) -> CallReport:
        """Calls the entry point and waits until the device is idle.

        Args:
            entry: what to call.
            arguments: its arguments.
            sampled: on a simulated device, runs a sample of the blocks only.
            checked_order: on a simulated device, looks for races and for reads of what nobody wrote, and counts
                nothing; warps and blocks run in the order that belongs to this number (0: as they are numbered).
        """

    def close(self) -> None:
        """Gives the device back."""


_CTYPES: Mapping[str, Callable[[Any], object]] = {
    "pointer": ctypes.c_void_p,
    "stream": ctypes.c_void_p,
    "int32": ctypes.c_int32,
    "uint32": ctypes.c_uint32,
    "int64": ctypes.c_int64,
    "uint64": ctypes.c_uint64,
    "float32": ctypes.c_float,
    "float64": ctypes.c_double,
    "bool": ctypes.c_bool,
}


def c_value(argument: CArgument) -> object:
    """The argument as ctypes passes it."""
    return _CTYPES[argument.ctype](argument.value)
