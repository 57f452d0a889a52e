"""A simulated GPU, named after the one that it models: `sim:h200`."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from astra_kernels.devices.device import (
    UNCHECKED,
    CallReport,
    CArgument,
    Entry,
    Facts,
    Fault,
    Launch,
    ProgramRefused,
    c_value,
)
from astra_kernels.devices.host_guard import GuardedSimulator
from astra_kernels.devices.sim_metrics import launch_metrics, line_profiles
from astra_kernels.errors import SetupError, UserError
from astra_kernels.simulator import Fault as SimulatedFault
from astra_kernels.simulator import (
    FaultKind,
    Resources,
    SimulatorOptions,
    machine_names,
    model_time,
)
from astra_kernels.simulator import Launch as SimulatedLaunch
from astra_kernels.simulator.errors import SimulatorRefusal, SimulatorSetupError
from astra_kernels.simulator.native import native_library

SAMPLED_BLOCKS = 64
"""Blocks that run of a launch that is only sampled."""
_STRAY = "{}; everything that a call does belongs on the stream that it is given"
_COPIES = "a call copies device memory to the host ({}); an asynchronous copy arrives after it"
_TYPICAL_REGISTERS = 32
"""Of a kernel for which the build reported none."""


def built_simulator() -> Path:
    """The simulator's native library, built now if it has to be.

    Raises:
        SetupError: it cannot be built here.
    """
    try:
        return native_library()
    except SimulatorSetupError as error:
        raise SetupError(str(error)) from error


class SimulatedDevice:
    """`sim:<machine>`: every access of a kernel is checked, everything that it does is counted."""

    separate_buffers = True

    def __init__(self, machine: str) -> None:
        """Starts the simulator.

        Raises:
            UserError: there is no such machine; the known ones are listed.
            SetupError: the simulator's native part cannot be built here.
        """
        if machine not in machine_names():
            known = ", ".join(f"sim:{name}" for name in machine_names())
            raise UserError(f"unknown device 'sim:{machine}': there are {known}")
        self._options = SimulatorOptions()
        try:
            self._simulator = GuardedSimulator(machine, self._options, native_library())
        except SimulatorSetupError as error:
            raise SetupError(str(error)) from error
        self.stream = self._simulator.new_stream()
        self._registers: dict[str, int] = {}
        model = self._simulator.machine
        self.facts = Facts(
            name=model.name,
            multiprocessors=model.multiprocessors,
            clock_mhz=model.clock_mhz,
            l2_bytes=model.l2_bytes,
            memory_bytes=model.memory_bytes,
            bandwidth_gb_s=model.memory_bandwidth_gb_s,
        )

    def allocate(self, size: int) -> int:
        """Allocates exactly `size` bytes."""
        return self._simulator.allocate(size) if size else 0

    def free(self, address: int) -> None:
        """Gives an allocation back."""
        if address:
            self._simulator.free(address)

    def write(self, address: int, data: np.ndarray) -> None:
        """Copies bytes to the device."""
        if data.size:
            self._simulator.write(address, data)

    def read(self, address: int, into: np.ndarray) -> None:
        """Copies bytes from the device."""
        if into.size:
            self._simulator.read(address, into)

    def load(self, library: Path, symbol: str, registers: Mapping[str, int]) -> Entry:
        """Loads a library onto the stand-in CUDA runtime.

        Raises:
            ProgramRefused: it needs something that is not simulated.
        """
        self._registers.update(registers)
        try:
            function: Entry = self._simulator.load(library).function(symbol)
        except SimulatorRefusal as refusal:
            raise ProgramRefused(str(refusal)) from refusal
        self._simulator.guard_imports(library, symbol, function)
        return function

    def call(
        self,
        entry: Entry,
        arguments: Sequence[CArgument],
        *,
        sampled: bool = False,
        checked_order: int | None = None,
    ) -> CallReport:
        """Calls the entry point; its launches are executed before they return."""
        blocks = SAMPLED_BLOCKS if sampled else None
        checks = checked_order is not None
        self._simulator.options = dataclasses.replace(
            self._options,
            block_sample=blocks,
            counters=not checks,
            checks=checks,
            order=checked_order or 0,
        )
        values = [c_value(a) for a in arguments]
        given = any(a.ctype == "stream" for a in arguments)
        self._simulator.expect_stream(self.stream if given else 0)
        with self._simulator.launcher_code():
            code = int(entry(*values))
        stray = self._simulator.stray_work()
        self._simulator.expect_stream(0)
        copies = self._simulator.copies_to_host
        note = _COPIES.format(", ".join(dict.fromkeys(copies)))
        notes = (note,) if copies else ()
        waited = [name for name in copies if not name.endswith("Async")]
        copies.clear()
        try:
            launches = self._simulator.take_launches()
        except SimulatorRefusal as refusal:
            return CallReport(code=code, fault=Fault(kind="not_simulated", message=str(refusal)))
        fault = next((x.fault for x in launches if x.fault is not None), None)
        if fault is not None:
            return CallReport(code=code, fault=_fault(fault))
        if waited:
            return CallReport(code=code, fault=Fault(kind="device_to_host", message=note))
        if stray:
            return CallReport(code=code, fault=Fault(kind="stream", message=_STRAY.format(stray)))
        if checks:
            notes = (*notes, UNCHECKED) if any(x.unchecked for x in launches) else notes
            return CallReport(code=code, notes=notes)
        launched = tuple(self._launch(x) for x in launches)
        return CallReport(code=code, launches=launched, notes=notes)

    def close(self) -> None:
        """Nothing to give back: the simulated device is this process."""

    def _launch(self, launch: SimulatedLaunch) -> Launch:
        machine = self._simulator.machine
        resources = Resources(self._registers.get(launch.kernel, _TYPICAL_REGISTERS))
        try:
            modelled = model_time(launch, machine, resources)
        except ValueError:  # no block fits, which the launcher was told by an error code
            modelled = None
        return Launch(
            kernel=launch.kernel,
            grid=launch.grid,
            block=launch.block,
            dynamic_shared_bytes=launch.dynamic_shared_bytes,
            metrics=launch_metrics(launch, machine, resources, modelled),
            modelled_us=None if modelled is None else modelled.device_us,
            sampled_blocks=(launch.executed_blocks, launch.blocks) if launch.sampled else None,
            lines=line_profiles(launch),
        )


def _fault(fault: SimulatedFault) -> Fault:
    looping = fault.kind is FaultKind.STEP_LIMIT
    return Fault(
        kind="step_limit" if looping else str(fault.kind),
        message=fault.detail,
        kernel=fault.kernel,
        block=fault.block,
        thread=fault.thread,
        file=fault.line.file if fault.line else None,
        line=fault.line.line if fault.line else None,
    )
