"""Keeps host code away from the memory of a simulated device, whose addresses are the host's own.

While a launcher's own code runs, the pages of device memory cannot be accessed: host code that touches them
ends with SIGSEGV, as on a real GPU. Kernels, copies and fills open them for as long as they run. Copies from
the device to the host are noted, and not carried out when they are asynchronous: on a real GPU their bytes
arrive after the launcher has returned. A launcher that changes the protection of pages by system calls of
its own can get around this.
"""

from __future__ import annotations

import contextlib
import ctypes
import mmap
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from astra_kernels.devices.imported_functions import replace_imports, set_access
from astra_kernels.simulator.device import Simulator

_WORD = ctypes.c_uint64
_PARAMETERS = {
    "cudaMemcpy": 4,
    "cudaMemcpyAsync": 5,
    "cudaMemcpy2D": 7,
    "cudaMemcpy2DAsync": 8,
    "cudaMemcpyPeer": 5,
    "cudaMemcpyPeerAsync": 6,
    "cudaMemset": 3,
    "cudaMemsetAsync": 4,
    "cudaMemset2D": 5,
    "cudaMemset2DAsync": 6,
    "cudaMemcpyToSymbol": 5,
    "cudaMemcpyToSymbolAsync": 6,
    "cudaMemcpyFromSymbol": 5,
    "cudaMemcpyFromSymbolAsync": 6,
    "cudaMalloc": 2,
    "cudaMallocAsync": 3,
    "cudaMallocFromPoolAsync": 4,
    "cudaMallocPitch": 4,
    "cudaMallocManaged": 3,
    "cudaFree": 1,
    "cudaFreeAsync": 2,
    "cudaGetSymbolAddress": 2,
}
_GIVE_ADDRESS = (
    "cudaMalloc",
    "cudaMallocAsync",
    "cudaMallocFromPoolAsync",
    "cudaMallocPitch",
    "cudaMallocManaged",
    "cudaGetSymbolAddress",
)
_SOURCE = {"cudaMemcpy": 1, "cudaMemcpyAsync": 1, "cudaMemcpy2D": 2, "cudaMemcpy2DAsync": 2}
_OPEN = mmap.PROT_READ | mmap.PROT_WRITE
_NONE = 0


class GuardedSimulator(Simulator):
    """A simulator whose memory only kernels, copies and fills of a launcher can reach."""

    def __init__(self, machine: str, options: Any, native: Path) -> None:
        super().__init__(machine, options)
        self._guarded: dict[int, int] = {}
        self._closed = False
        self._runtime = ctypes.CDLL(str(native))
        self._stand_ins = {name: self._stand_in(name) for name in _PARAMETERS}
        self.copies_to_host: list[str] = []
        """Functions that copied, or would have copied, from the device to the host."""

    def allocate(self, size: int, name: str = "buffer") -> int:
        """Allocates device memory of exactly this size; gives its address."""
        address = super().allocate(size, name)
        self._guard(address)
        return address

    def free(self, address: int) -> None:
        """Frees what `allocate` gave."""
        self._guarded.pop(address, None)
        super().free(address)

    def guard_imports(self, library: Path, symbol: str, function: Any) -> None:
        """Sends a loaded library's copies and allocations through here."""
        address = ctypes.cast(function, ctypes.c_void_p).value or 0
        places = {n: ctypes.cast(f, ctypes.c_void_p).value or 0 for n, f in self._stand_ins.items()}
        replace_imports(library, symbol, address, places)

    @contextlib.contextmanager
    def launcher_code(self) -> Iterator[None]:
        """Closes device memory for the length of a `with` block."""
        self._set_closed(True)
        try:
            yield
        finally:
            self._set_closed(False)

    def _on_launch(self, call: Any) -> int:
        return int(self._opened(super()._on_launch, call))

    def _opened(self, function: Callable[..., Any], *arguments: Any) -> Any:
        closed = self._closed
        self._set_closed(False)
        try:
            return function(*arguments)
        finally:
            self._set_closed(closed)

    def _set_closed(self, closed: bool) -> None:
        if closed != self._closed:
            for address, size in self._guarded.items():
                set_access(address, size, _NONE if closed else _OPEN)
        self._closed = closed

    def _guard(self, address: int) -> None:
        """Guards the allocation that holds an address, if there is one."""
        nearest = self._executor.nearest(address)
        if nearest is None or not nearest[0] <= address < nearest[0] + nearest[1]:
            return
        start, size, _ = nearest
        if start not in self._guarded:
            self._guarded[start] = size
            if self._closed:
                set_access(start, size, _NONE)

    def _holds(self, address: int) -> bool:
        return any(start <= address < start + size for start, size in self._guarded.items())

    def _stand_in(self, name: str) -> Any:
        """A C function that does what the runtime's does, with device memory open."""
        words = [_WORD] * _PARAMETERS[name]
        real = ctypes.CFUNCTYPE(ctypes.c_int, *words)((name, self._runtime))

        def called(*arguments: int) -> int:
            source = _SOURCE.get(name)
            if name.startswith("cudaMemcpyFromSymbol") or (
                source is not None
                and self._holds(arguments[source])
                and not self._holds(arguments[0])
            ):
                self.copies_to_host.append(name)
                if name.endswith("Async"):
                    return 0
            if name.startswith("cudaFree"):
                self._guarded.pop(arguments[0], None)  # its pages are not there to be closed again
            code = int(self._opened(real, *arguments))
            if name in _GIVE_ADDRESS and code == 0:
                self._guard(ctypes.c_uint64.from_address(arguments[0]).value)
            return code

        return ctypes.CFUNCTYPE(ctypes.c_int, *words)(called)
