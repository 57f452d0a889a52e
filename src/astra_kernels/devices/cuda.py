"""A real GPU through the CUDA driver API (package cuda-bindings) and its primary context.

Candidates use the shared CUDA runtime; the driver's primary context is the one that the runtime uses as
well, so memory and streams made here are valid in the candidate's launcher.
"""

from __future__ import annotations

import contextlib
import ctypes
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from astra_kernels.devices.device import (
    CallReport,
    CArgument,
    Entry,
    Facts,
    Fault,
    ProgramRefused,
    c_value,
)
from astra_kernels.errors import MachineFault, SetupError

_LOST = frozenset(
    "CUDA_ERROR_" + name
    for name in (
        "NOT_INITIALIZED",
        "DEINITIALIZED",
        "NO_DEVICE",
        "INVALID_DEVICE",
        "DEVICE_UNAVAILABLE",
        "ECC_UNCORRECTABLE",
        "NVLINK_UNCORRECTABLE",
        "MPS_SERVER_NOT_READY",
        "SYSTEM_NOT_READY",
        "SYSTEM_DRIVER_MISMATCH",
        "OUT_OF_MEMORY",
        "UNKNOWN",
    )
)
"""Errors that speak of the machine, whoever made the call."""


class CudaError(Exception):
    """A driver call failed for a reason that is not the machine's."""

    def __init__(self, name: str, call: str) -> None:
        super().__init__(f"{name} in {call}")
        self.name = name


def driver_module() -> Any:
    """The driver bindings.

    Raises:
        SetupError: cuda-bindings is not installed.
    """
    try:
        from cuda.bindings import driver
    except ImportError as error:
        raise SetupError(
            "a CUDA device needs the package cuda-bindings: pip install 'astra-kernels[gpu]'"
        ) from error
    return driver


def driver_call(name: str, *arguments: object) -> Any:
    """Calls a driver function; returns its one result, a tuple of several, or None.

    Raises:
        MachineFault: the error speaks of a lost or full device.
        CudaError: any other error.
    """
    status, *results = getattr(driver_module(), name)(*arguments)
    if int(status) != 0:
        if status.name in _LOST:
            raise MachineFault(f"{name}: {status.name}")
        raise CudaError(status.name, name)
    if not results:
        return None
    return results[0] if len(results) == 1 else tuple(results)


class CudaDevice:
    """`cuda:N`."""

    separate_buffers = False

    def __init__(self, ordinal: int, cuda_runtime: Path) -> None:
        """Retains the primary context.

        Raises:
            MachineFault: there is no such device, or it does not answer.
            SetupError: cuda-bindings or the CUDA runtime is missing.
        """
        try:
            self._runtime = ctypes.CDLL(str(cuda_runtime), mode=ctypes.RTLD_GLOBAL)
        except OSError as error:
            raise SetupError(
                f"the CUDA runtime {cuda_runtime} cannot be loaded: {error}"
            ) from error
        try:
            driver_call("cuInit", 0)
            self._device = driver_call("cuDeviceGet", ordinal)
            driver_call("cuCtxSetCurrent", driver_call("cuDevicePrimaryCtxRetain", self._device))
            self._stream = driver_call("cuStreamCreate", 1)  # CU_STREAM_NON_BLOCKING
            self.facts = self._facts()
        except CudaError as error:
            raise MachineFault(f"cuda:{ordinal} cannot be opened: {error}") from error

    @property
    def stream(self) -> int:
        """The stream for calls, which does not wait for the default stream."""
        return int(self._stream)

    def allocate(self, size: int) -> int:
        """Allocates device memory."""
        return int(driver_call("cuMemAlloc", size)) if size else 0

    def free(self, address: int) -> None:
        """Gives device memory back."""
        if address:
            driver_call("cuMemFree", address)

    def write(self, address: int, data: np.ndarray) -> None:
        """Copies bytes to the device; they are there when this returns.

        A plain copy from pageable memory may return before its last part has arrived, and the device's stream
        does not wait for the default one.
        """
        if data.size:
            source = data.ctypes.data
            driver_call("cuMemcpyHtoDAsync", address, source, data.nbytes, self._stream)
            driver_call("cuStreamSynchronize", self._stream)

    def read(self, address: int, into: np.ndarray) -> None:
        """Copies bytes from the device."""
        if into.size:
            driver_call("cuMemcpyDtoH", into.ctypes.data, address, into.nbytes)

    def load(self, library: Path, symbol: str, registers: Mapping[str, int]) -> Entry:
        """Loads a library whose runtime is the one that is loaded already."""
        del registers
        try:
            function = getattr(ctypes.CDLL(str(library)), symbol)
        except (OSError, AttributeError) as error:
            raise ProgramRefused(str(error)) from error
        function.restype = ctypes.c_int
        return function  # type: ignore[no-any-return]  # ctypes functions are untyped

    def call(
        self,
        entry: Entry,
        arguments: Sequence[CArgument],
        *,
        sampled: bool = False,
        checked_order: int | None = None,
    ) -> CallReport:
        """Calls the entry point and waits for the whole device, not only for the stream."""
        del sampled, checked_order
        code = int(entry(*(c_value(a) for a in arguments)))
        left_over = int(self._runtime.cudaGetLastError())
        fault = self.settle()
        if fault is None and left_over and not code:
            fault = Fault(kind="error", message=f"CUDA error {left_over} was left behind")
        return CallReport(code=code, fault=fault)

    def settle(self) -> Fault | None:
        """Waits until the device is idle; an error that surfaces is the last caller's."""
        try:
            driver_call("cuCtxSynchronize")
        except CudaError as error:
            return Fault(kind="error", message=str(error))
        return None

    def close(self) -> None:
        """Releases the primary context."""
        with contextlib.suppress(CudaError):
            driver_call("cuDevicePrimaryCtxRelease", self._device)

    def free_bytes(self) -> int:
        """Device memory that is free now."""
        return int(driver_call("cuMemGetInfo")[0])

    def attribute(self, name: str) -> int:
        """A number of the device, by the driver's name for it without its prefix."""
        key = getattr(driver_module().CUdevice_attribute, f"CU_DEVICE_ATTRIBUTE_{name}")
        return int(driver_call("cuDeviceGetAttribute", key, self._device))

    def _facts(self) -> Facts:
        attribute = self.attribute
        name = driver_call("cuDeviceGetName", 128, self._device)
        version = int(driver_call("cuDriverGetVersion"))
        bits, kilohertz = attribute("GLOBAL_MEMORY_BUS_WIDTH"), attribute("MEMORY_CLOCK_RATE")
        return Facts(
            name=name.decode(errors="replace").strip("\0 "),
            multiprocessors=attribute("MULTIPROCESSOR_COUNT"),
            clock_mhz=attribute("CLOCK_RATE") / 1000,
            l2_bytes=attribute("L2_CACHE_SIZE"),
            memory_bytes=int(driver_call("cuDeviceTotalMem", self._device)),
            bandwidth_gb_s=2 * kilohertz * 1e3 * bits / 8 / 1e9,
            driver=f"CUDA {version // 1000}.{version % 1000 // 10}",
        )
