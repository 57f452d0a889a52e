"""A simulated GPU: unmodified host launchers run, their kernels' PTX is executed on the processor.

Nothing native is built or loaded until a `Simulator` is made.

What is not modelled, beside time: the payload and sign of a NaN; the last bit of the approximate functions
(`ex2.approx` and its like are rounded correctly here, the hardware is off by a unit or two); the last bits of
products on tensor cores. Races and reads of uninitialised memory are looked for in launches with
`SimulatorOptions.checks`. Warp-group products, clusters, bulk copies, mbarriers, textures, recursion and calls
through pointers are refused by name.
"""

from astra_kernels.simulator.device import Simulator
from astra_kernels.simulator.errors import (
    CompressedFatbin,
    InvalidPtx,
    MissingSymbol,
    SimulatorRefusal,
    SimulatorSetupError,
    UnsupportedPtx,
)
from astra_kernels.simulator.library import Library
from astra_kernels.simulator.machine import Machine, load_machine, machine_names
from astra_kernels.simulator.occupancy import Limiter, Occupancy, occupancy
from astra_kernels.simulator.records import (
    Counters,
    Fault,
    FaultKind,
    Launch,
    LineCounters,
    OtherSide,
    SimulatorOptions,
    SourceLine,
)
from astra_kernels.simulator.timemodel import (
    Bound,
    ModelledTime,
    Resources,
    StatedError,
    model_time,
    model_time_us,
    stated_error,
)

__all__ = [
    "Bound",
    "CompressedFatbin",
    "Counters",
    "Fault",
    "FaultKind",
    "InvalidPtx",
    "Launch",
    "Library",
    "Limiter",
    "LineCounters",
    "Machine",
    "MissingSymbol",
    "ModelledTime",
    "Occupancy",
    "OtherSide",
    "Resources",
    "Simulator",
    "SimulatorOptions",
    "SimulatorRefusal",
    "SimulatorSetupError",
    "SourceLine",
    "StatedError",
    "UnsupportedPtx",
    "load_machine",
    "machine_names",
    "model_time",
    "model_time_us",
    "occupancy",
    "stated_error",
]
