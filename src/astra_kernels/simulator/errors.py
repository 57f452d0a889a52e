"""What the simulator refuses, and why: a refusal names the part that it cannot model."""

from __future__ import annotations

from dataclasses import dataclass

from astra_kernels.errors import SetupError
from astra_kernels.simulator.records import SourceLine


class SimulatorRefusal(Exception):
    """A program that the simulator cannot run faithfully, and therefore does not run."""


class SimulatorSetupError(SetupError):
    """The simulator's own native part cannot be built or loaded on this machine."""


@dataclass
class UnsupportedPtx(SimulatorRefusal):
    """A kernel contains an instruction, modifier or construct that is not implemented.

    Attributes:
        kernel: The kernel's name as in the PTX.
        construct: The instruction's text, or a description of the construct.
        reason: What about it is not implemented.
        line: Where it comes from, when the PTX has line information.
    """

    kernel: str
    construct: str
    reason: str
    line: SourceLine | None = None

    def __str__(self) -> str:
        where = f" ({self.line.file}:{self.line.line})" if self.line else ""
        return f"not simulated: {self.reason}: `{self.construct}` in {self.kernel}{where}"


class InvalidPtx(SimulatorRefusal):
    """PTX text that does not parse; nvcc does not write such text."""


class CompressedFatbin(SimulatorRefusal):
    """The library's PTX is compressed, or there is none."""


class DamagedLibrary(SimulatorRefusal):
    """The library's file is cut short, or its tables contradict themselves."""


class MissingSymbol(SimulatorRefusal):
    """The library needs functions that the simulated CUDA runtime does not provide."""
