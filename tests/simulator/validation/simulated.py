"""Points of the corpus on the simulator: outputs, counters, modelled times."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from astra_kernels.devices.device import CArgument, c_value
from astra_kernels.simulator import Launch, Resources, Simulator, model_time_us
from tests.simulator.validation.point import Point
from tests.simulator.validation.programs import PointFailed, Programs, arguments


@dataclass(frozen=True)
class Simulated:
    """What a point did here."""

    point: Point
    outputs: dict[str, np.ndarray]
    launch: Launch
    modelled_us: float


def run_points(programs: Programs, points: tuple[Point, ...]) -> Iterator[Simulated]:
    """Runs every block of each point whose source was built.

    Raises:
        PointFailed: a call faults, or launches anything but one kernel.
    """
    simulator = Simulator("h200")
    stream = simulator.new_stream()
    for point in points:
        if point.source not in programs.built:
            continue
        buffers = point.inputs()
        addresses = [simulator.allocate(buffer.nbytes) for buffer in buffers]
        for address, buffer in zip(addresses, buffers, strict=True):
            simulator.write(address, buffer)
        function = simulator.load(programs.built[point.source].library).function(point.kernel)
        bound: list[CArgument] = [a.bound(addresses, stream) for a in arguments(point)]
        code = function(*(c_value(a) for a in bound))
        launches = simulator.take_launches()
        if code or len(launches) != 1 or launches[0].fault is not None:
            raise PointFailed(f"{point.name}: code {code}, {launches}")
        for address, buffer in zip(addresses, buffers, strict=True):
            simulator.read(address, buffer)
            simulator.free(address)
        outputs = {a.name: b for a, b in zip(point.arrays, buffers, strict=True) if a.output}
        registers = programs.registers(point.source)[launches[0].kernel]
        modelled = model_time_us(launches[0], simulator.machine, Resources(registers))
        yield Simulated(point, outputs, launches[0], modelled)
