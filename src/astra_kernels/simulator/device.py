"""The simulated device: memory, libraries, launches."""

from __future__ import annotations

import ctypes
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from astra_kernels.simulator.errors import SimulatorRefusal
from astra_kernels.simulator.executor_interface import (
    DESCRIBE_CALLBACK,
    LAUNCH_CALLBACK,
    SYMBOL_CALLBACK,
    Callbacks,
    Executor,
    MachineFacts,
)
from astra_kernels.simulator.fatbin import find_ptx, find_registers, total_size
from astra_kernels.simulator.geometry import Geometry, Shape
from astra_kernels.simulator.launching import (
    check_resident,
    pack_parameters,
    run_launch,
)
from astra_kernels.simulator.library import Library, check_library
from astra_kernels.simulator.machine import Machine, load_machine
from astra_kernels.simulator.module import LoadedModule, PreparedKernel
from astra_kernels.simulator.native import native_library
from astra_kernels.simulator.occupancy import occupancy
from astra_kernels.simulator.records import Fault, FaultKind, Launch, SimulatorOptions

_SUCCESS = 0
_OUT_OF_MEMORY = 2
_LAUNCH_FAILURE = 719
_NO_KERNEL_IMAGE = 209
_ERRORS = {
    FaultKind.GLOBAL_BOUNDS: 700,
    FaultKind.SHARED_BOUNDS: 700,
    FaultKind.LOCAL_BOUNDS: 700,
    FaultKind.GLOBAL_MISALIGNED: 716,
    FaultKind.SHARED_MISALIGNED: 716,
    FaultKind.LOCAL_MISALIGNED: 716,
    FaultKind.STEP_LIMIT: 702,
    FaultKind.DEADLOCK: 702,
    FaultKind.ASSERTION: 710,
}


def _shape(values: Any) -> Shape:
    return (int(values[0]), int(values[1]), int(values[2]))


class Simulator:
    """One simulated GPU, used by one process, as a process uses a real one.

    Host launchers run in this process and synchronously; a caller that does not trust them isolates
    the whole simulator in a child process.

    Args:
        machine: Which GPU to stand in for; see `machine_names`.
        options: How to simulate.

    Raises:
        SimulatorSetupError: The native part cannot be built here.
    """

    def __init__(self, machine: str = "h200", options: SimulatorOptions | None = None) -> None:
        self.machine = load_machine(machine)
        self.options = options or SimulatorOptions()
        self._executor = Executor(native_library())
        self._modules: dict[int, LoadedModule] = {}
        self._launches: list[Launch] = []
        self._launched = 0
        self._refusal: SimulatorRefusal | None = None
        # ctypes calls these for as long as the library is loaded, so they are kept here.
        self._callbacks = Callbacks(
            LAUNCH_CALLBACK(self._on_launch),
            DESCRIBE_CALLBACK(self._on_describe),
            SYMBOL_CALLBACK(self._on_symbol),
        )
        self._executor.configure(_facts(self.machine), self._callbacks)

    # ---- memory ----------------------------------------------------------------------------------

    def allocate(self, size: int, name: str = "buffer") -> int:
        """Allocate device memory of exactly this size; gives its address."""
        return self._executor.allocate(size, name)

    def free(self, address: int) -> None:
        """Free what `allocate` gave.

        Raises:
            ValueError: Nothing is allocated at this address.
        """
        if not self._executor.release(address):
            raise ValueError(f"nothing is allocated at {address:#x}")

    def write(self, address: int, data: NDArray[Any]) -> None:
        """Copy an array to the device.

        Raises:
            ValueError: It does not fit into the allocation.
        """
        contiguous = np.ascontiguousarray(data)
        self._check(address, contiguous.nbytes)
        ctypes.memmove(address, contiguous.ctypes.data, contiguous.nbytes)
        self._executor.note_written(address, contiguous.nbytes)

    def read(self, address: int, out: NDArray[Any]) -> None:
        """Copy from the device into a C-contiguous array.

        Raises:
            ValueError: The allocation is smaller, or the array is not contiguous.
        """
        if not out.flags.c_contiguous:
            raise ValueError("the array to read into must be C-contiguous")
        self._check(address, out.nbytes)
        ctypes.memmove(out.ctypes.data, address, out.nbytes)

    def _check(self, address: int, size: int) -> None:
        nearest = self._executor.nearest(address)
        if nearest is None or not nearest[0] <= address <= address + size <= sum(nearest[:2]):
            raise ValueError(f"{size} bytes at {address:#x} are not inside an allocation")

    # ---- libraries and launches ------------------------------------------------------------------

    def load(self, path: Path | str) -> Library:
        """Load a shared library built by nvcc with PTX for this machine or an older one.

        Raises:
            MissingSymbol: It needs CUDA functions that are not provided.
            CompressedFatbin: Its PTX cannot be read.
        """
        path = Path(path).resolve()
        check_library(path, self._executor, self.machine.architecture)
        return Library(path)

    def new_stream(self) -> int:
        """A stream of this device."""
        return self._executor.new_stream()

    def expect_stream(self, stream: int) -> None:
        """Refuse kernels, copies, fills and allocations on other streams from now on; 0 refuses none."""
        self._executor.expect_stream(stream)

    def stray_work(self) -> str:
        """The first work on another stream since `expect_stream`, in words; "" when there was none."""
        return self._executor.stray_work()

    def take_launches(self) -> list[Launch]:
        """The launches since this was last called.

        Raises:
            SimulatorRefusal: One of them could not be simulated; the launcher got an error code.
        """
        launches, self._launches = self._launches, []
        refusal, self._refusal = self._refusal, None
        if refusal is not None:
            raise refusal
        return launches

    def take_faults(self) -> list[Fault]:
        """The faults of the launches since launches or faults were last taken; see `take_launches`."""
        return [launch.fault for launch in self.take_launches() if launch.fault is not None]

    def _module(self, fatbin: int) -> LoadedModule:
        if fatbin not in self._modules:
            size = total_size(ctypes.string_at(fatbin, 16))
            data, architecture = ctypes.string_at(fatbin, size), self.machine.architecture
            self._modules[fatbin] = LoadedModule(
                find_ptx(data, architecture), find_registers(data, architecture), self._executor
            )
        return self._modules[fatbin]

    def _kernel(self, fatbin: int, name: bytes) -> PreparedKernel | None:
        """The kernel, or None after noting why there is none: an exception cannot cross C code."""
        try:
            return self._module(fatbin).kernel(name.decode())
        except SimulatorRefusal as refusal:
            self._refusal = self._refusal or refusal
            return None

    def _on_launch(self, call: Any) -> int:
        request = call.contents
        kernel = self._kernel(request.fatbin, request.name)
        if kernel is None:
            return _NO_KERNEL_IMAGE
        self._launched += 1
        block, shared_bytes = _shape(request.block), int(request.shared_bytes)
        geometry = Geometry(
            _shape(request.grid),
            block,
            shared_bytes,
            cooperative=bool(request.cooperative),
            programmatic=bool(request.programmatic),
            number=self._launched,
            multiprocessors=self.machine.multiprocessors,
            warps_per_multiprocessor=self.machine.max_threads_per_sm // 32,
            reserved_shared_bytes=self.machine.shared_reserved_bytes,
            resident_blocks=self.machine.multiprocessors
            * occupancy(
                self.machine,
                block[0] * block[1] * block[2],
                self._registers(request.fatbin, kernel),
                kernel.lowered.frame.shared_bytes + shared_bytes,
            ).blocks_per_sm,
        )
        try:
            check_resident(kernel, geometry)
            launch = run_launch(
                self._executor,
                kernel,
                geometry,
                pack_parameters(kernel, request.arguments),
                self._module(request.fatbin).symbols,
                self.options,
            )
        except SimulatorRefusal as refusal:
            self._refusal = self._refusal or refusal
            return _OUT_OF_MEMORY
        self._launches.append(launch)
        return _ERRORS.get(launch.fault.kind, _LAUNCH_FAILURE) if launch.fault else _SUCCESS

    def _on_describe(self, fatbin: int, name: bytes, facts: Any) -> int:
        kernel = self._kernel(fatbin, name)
        if kernel is None:
            return _NO_KERNEL_IMAGE
        frame = kernel.lowered.frame
        facts.contents.static_shared_bytes = frame.shared_bytes
        facts.contents.local_bytes = frame.local_bytes
        facts.contents.max_threads = kernel.lowered.max_threads or 0
        facts.contents.registers = self._registers(fatbin, kernel)
        return _SUCCESS

    def _registers(self, fatbin: int, kernel: PreparedKernel) -> int:
        """From the library's machine code for this GPU; without it, from what lives at once in PTX."""
        known = self._module(fatbin).registers.get(kernel.lowered.name)
        if known:
            return known
        guess = -(-(kernel.encoded.live_words + 6) // 8) * 8
        return min(self.machine.max_registers_per_thread, max(16, guess))

    def _on_symbol(self, fatbin: int, name: bytes, size: Any) -> int:
        try:
            module = self._module(fatbin)
            size[0] = module.variable_size(name.decode())
            return module.symbols[name.decode()]
        except (SimulatorRefusal, KeyError):
            return 0


def _facts(machine: Machine) -> MachineFacts:
    major, minor = machine.compute_capability
    return MachineFacts(
        name=machine.name.encode(),
        memory_bytes=machine.memory_bytes,
        multiprocessors=machine.multiprocessors,
        major=major,
        minor=minor,
        clock_khz=machine.clock_mhz * 1000,
        memory_clock_khz=machine.memory_clock_mhz * 1000,
        memory_bus_bits=machine.memory_bus_bits,
        l2_bytes=machine.l2_bytes,
        max_threads_per_sm=machine.max_threads_per_sm,
        max_blocks_per_sm=machine.max_blocks_per_sm,
        registers_per_sm=machine.registers_per_sm,
        shared_per_sm=machine.shared_bytes_per_sm,
        shared_per_block=machine.shared_bytes_per_block,
        shared_per_block_optin=machine.shared_bytes_per_block_optin,
        shared_reserved=machine.shared_reserved_bytes,
    )
