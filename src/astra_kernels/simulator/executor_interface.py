"""The native library's functions, typed. The structures mirror `executor/program.h` and `runtime/cudart.h`."""

from __future__ import annotations

import ctypes as C
from collections.abc import Callable
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from astra_kernels.simulator.lowering.encode import OperationNumbers
from astra_kernels.simulator.lowering.microcode import Kind
from astra_kernels.simulator.lowering.translate import OperationTable

COUNTER_NAMES = (
    "warps", "threads", "guarded_on", "global_requests", "shared_requests", "local_requests",
    "sectors", "lines", "wavefronts", "atomic_passes", "splits",
)  # fmt: skip


class NativeFault(C.Structure):
    """`astra::Fault`."""

    _fields_ = (
        ("kind", C.c_int32),
        ("instruction", C.c_int32),
        ("block", C.c_uint64),
        ("thread", C.c_int32),
        ("bytes", C.c_int32),
        ("address", C.c_uint64),
        ("other_instruction", C.c_int32),
        ("other_thread", C.c_int32),
        ("other_block", C.c_uint64),
    )


class LaunchRequest(C.Structure):
    """`astra::LaunchRequest`."""

    _fields_ = (
        ("code", C.c_void_p),
        ("instructions", C.c_int64),
        ("constants", C.c_void_p),
        ("constant_bytes", C.c_int64),
        ("warp_bytes", C.c_int64),
        ("grid", C.c_uint32 * 3),
        ("block", C.c_uint32 * 3),
        ("shared_bytes", C.c_int64),
        ("local_bytes", C.c_int64),
        ("blocks", C.c_void_p),
        ("block_count", C.c_int64),
        ("step_limit", C.c_int64),
        ("threads", C.c_int32),
        ("count", C.c_int32),
        ("programmatic", C.c_int32),
        ("cooperative", C.c_int32),
        ("seed", C.c_uint64),
        ("order", C.c_uint64),
        ("checks", C.c_int32),
        ("resident", C.c_int64),
        ("most_resident", C.c_int64),
        ("operand_lists", C.c_void_p),
    )


class LaunchResult(C.Structure):
    """`astra::LaunchResult`."""

    _fields_ = (
        ("fault", NativeFault),
        ("barriers", C.c_uint64),
        ("bytes_read", C.c_uint64),
        ("bytes_written", C.c_uint64),
        ("busiest_atomic_passes", C.c_uint64),
        ("unchecked", C.c_uint64),
        ("executed", C.c_uint64),
        ("crowded", C.c_uint64),
        ("message", C.c_char * 512),
    )


class LaunchCall(C.Structure):
    """`astra::cudart::LaunchCall`."""

    _fields_ = (
        ("fatbin", C.c_void_p),
        ("name", C.c_char_p),
        ("grid", C.c_uint32 * 3),
        ("block", C.c_uint32 * 3),
        ("shared_bytes", C.c_uint64),
        ("arguments", C.POINTER(C.c_void_p)),
        ("cooperative", C.c_int32),
        ("programmatic", C.c_int32),
    )


class KernelFacts(C.Structure):
    """`astra::cudart::KernelFacts`."""

    _fields_ = (
        ("static_shared_bytes", C.c_int32),
        ("local_bytes", C.c_int32),
        ("max_threads", C.c_int32),
        ("registers", C.c_int32),
    )


class MachineFacts(C.Structure):
    """`astra::cudart::MachineFacts`."""

    _fields_ = (
        ("name", C.c_char * 64),
        ("memory_bytes", C.c_uint64),
        *(
            (name, C.c_int32)
            for name in (
                "multiprocessors", "major", "minor", "clock_khz", "memory_clock_khz",
                "memory_bus_bits", "l2_bytes", "max_threads_per_sm", "max_blocks_per_sm",
                "registers_per_sm", "shared_per_sm", "shared_per_block", "shared_per_block_optin",
                "shared_reserved",
            )
        ),
    )  # fmt: skip


LAUNCH_CALLBACK = C.CFUNCTYPE(C.c_int, C.POINTER(LaunchCall))
DESCRIBE_CALLBACK = C.CFUNCTYPE(C.c_int, C.c_void_p, C.c_char_p, C.POINTER(KernelFacts))
SYMBOL_CALLBACK = C.CFUNCTYPE(C.c_uint64, C.c_void_p, C.c_char_p, C.POINTER(C.c_uint64))


class Callbacks(C.Structure):
    """`astra::cudart::Callbacks`."""

    _fields_ = (
        ("launch", LAUNCH_CALLBACK),
        ("describe", DESCRIBE_CALLBACK),
        ("symbol", SYMBOL_CALLBACK),
    )


class Executor:
    """The loaded native library. Its memory and runtime are the process's, as CUDA's are."""

    def __init__(self, path: Path) -> None:
        # Global, so that candidates find the CUDA runtime's functions here.
        self._library = C.CDLL(str(path), mode=C.RTLD_GLOBAL)
        self._library.astra_allocate.argtypes = [C.c_uint64, C.c_char_p, C.c_int]
        self._library.astra_allocate.restype = C.c_uint64
        self._library.astra_release.argtypes = [C.c_uint64]
        self._library.astra_nearest.argtypes = [C.c_uint64] + [C.c_void_p] * 3
        self._library.astra_note_written.argtypes = [C.c_uint64, C.c_uint64]
        self._library.astra_note_written.restype = None
        self._library.astra_expect_stream.argtypes = [C.c_void_p]
        self._library.astra_expect_stream.restype = None
        self._library.astra_stray_work.restype = C.c_char_p
        for name in ("operation", "handler", "atomic"):
            getattr(self._library, f"astra_{name}_name").restype = C.c_char_p
        self._handlers = self._names("handler")
        self._operations = self._names("operation")
        self._atomics = self._names("atomic")

    def _names(self, what: str) -> list[str]:
        ask: Callable[[int], bytes | None] = getattr(self._library, f"astra_{what}_name")
        names: list[str] = []
        while (name := ask(len(names))) is not None:
            names.append(name.decode())
        return names

    def provides(self, symbol: str) -> bool:
        """Whether the stand-in runtime has this function."""
        return hasattr(self._library, symbol)

    def operation_table(self) -> OperationTable:
        """What is implemented."""
        elementwise = {}
        kinds = (C.c_uint8 * 8)()
        for index, name in enumerate(self._operations):
            count = self._library.astra_operation_kinds(index, kinds)
            listed = [Kind(kind) for kind in kinds[:count]]
            elementwise[name] = (listed[0], tuple(listed[1:]))
        atomics = {
            name: bool(self._library.astra_atomic_order_matters(index))
            for index, name in enumerate(self._atomics)
        }
        return OperationTable(elementwise, atomics)

    def operation_numbers(self) -> OperationNumbers:
        """The numbers that programs use for the names."""
        return OperationNumbers(
            *({name: i for i, name in enumerate(names)} for names in self._number_lists())
        )

    def _number_lists(self) -> tuple[list[str], list[str], list[str]]:
        return self._handlers, self._operations, self._atomics

    def apply(self, name: str, result: NDArray[np.generic], *sources: NDArray[np.generic]) -> None:
        """Run one operation on 32 lanes, outside of any kernel."""
        pointers = (C.c_void_p * 4)(*(source.ctypes.data for source in sources))
        index = self._operations.index(name)
        self._library.astra_apply(index, C.c_void_p(result.ctypes.data), pointers)

    def configure(self, machine: MachineFacts, callbacks: Callbacks) -> None:
        """Set what the runtime reports, and who carries out launches."""
        self._library.astra_configure(C.byref(machine), C.byref(callbacks))

    def allocate(self, size: int, name: str, counted: bool = True) -> int:
        """Allocate device memory.

        Raises:
            MemoryError: The host has none left.
        """
        address = int(self._library.astra_allocate(size, name.encode(), counted))
        if not address:
            raise MemoryError(f"no memory for {size} bytes of {name}")
        return address

    def release(self, address: int) -> bool:
        """Free device memory; False when nothing was allocated at this address."""
        return bool(self._library.astra_release(address))

    def note_written(self, address: int, size: int) -> None:
        """Tell the checks that the host wrote these bytes."""
        self._library.astra_note_written(address, size)

    def nearest(self, address: int) -> tuple[int, int, str] | None:
        """The allocation nearest to an address: start, size, name."""
        start, size, name = C.c_uint64(), C.c_uint64(), C.c_char_p()
        found = self._library.astra_nearest(address, C.byref(start), C.byref(size), C.byref(name))
        return (start.value, size.value, (name.value or b"").decode()) if found else None

    def new_stream(self) -> int:
        """A stream; it orders nothing, since every operation has completed when its call returns."""
        stream = C.c_void_p()
        self._library.cudaStreamCreate(C.byref(stream))
        return stream.value or 0

    def expect_stream(self, stream: int) -> None:
        """Refuse work on other streams from now on; 0 refuses none."""
        self._library.astra_expect_stream(stream)

    def stray_work(self) -> str:
        """The first work since `expect_stream` that was on another stream; "" when there was none."""
        said: bytes = self._library.astra_stray_work()
        return said.decode()

    def launch(self, request: LaunchRequest, counters: NDArray[np.uint64]) -> LaunchResult:
        """Run a launch to its end or its first fault; `counters` is added to."""
        result = LaunchResult()
        self._library.astra_launch(
            C.byref(request), C.c_void_p(counters.ctypes.data), C.byref(result)
        )
        return result
