"""A simulated GPU: unmodified host launchers run, their kernels' PTX is executed on the processor.

Nothing native is built or loaded until a `Simulator` is made.
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
from astra_kernels.simulator.records import (
    Counters,
    Fault,
    FaultKind,
    Launch,
    LineCounters,
    SimulatorOptions,
    SourceLine,
)

__all__ = [
    "CompressedFatbin",
    "Counters",
    "Fault",
    "FaultKind",
    "InvalidPtx",
    "Launch",
    "Library",
    "LineCounters",
    "Machine",
    "MissingSymbol",
    "Simulator",
    "SimulatorOptions",
    "SimulatorRefusal",
    "SimulatorSetupError",
    "SourceLine",
    "UnsupportedPtx",
    "load_machine",
    "machine_names",
]
