"""A translation unit of a loaded library: its kernels, lowered on demand, and its variables."""

from __future__ import annotations

import ctypes
from dataclasses import dataclass

from astra_kernels.simulator.errors import SimulatorRefusal
from astra_kernels.simulator.executor_interface import Executor
from astra_kernels.simulator.lowering import (
    EncodedKernel,
    LoweredKernel,
    encode_kernel,
    lower_kernel,
)
from astra_kernels.simulator.ptx import parse_module


@dataclass(frozen=True)
class PreparedKernel:
    """A kernel that can be launched.

    Attributes:
        lowered: Its microcode and layout.
        encoded: The executor's form of it.
        parameter_address: Where its parameters lie in device memory.
        order_matters: Whether results depend on the order of blocks (floating-point atomics, printed lines).
    """

    lowered: LoweredKernel
    encoded: EncodedKernel
    parameter_address: int
    order_matters: bool


class LoadedModule:
    """Holds what belongs to one translation unit.

    Args:
        ptx: Its PTX.
        registers: Registers a thread of the kernels whose machine code is there too.
        executor: Where its variables are placed.
    """

    def __init__(self, ptx: str, registers: dict[str, int], executor: Executor) -> None:
        self.registers = registers
        self._executor = executor
        self._module = parse_module(ptx)
        self._table = executor.operation_table()
        self._kernels: dict[str, PreparedKernel] = {}
        self.symbols = self._place_variables()

    def variable_size(self, name: str) -> int:
        """Bytes of a module variable."""
        return self._module.variables[name].size

    def kernel(self, name: str) -> PreparedKernel:
        """Lower a kernel, or give what was lowered before.

        Raises:
            UnsupportedPtx: Something in it is not implemented.
        """
        if name not in self._kernels:
            self._kernels[name] = self._prepare(name)
        return self._kernels[name]

    def _prepare(self, name: str) -> PreparedKernel:
        lowered = lower_kernel(self._module, name, self._table)
        encoded = encode_kernel(lowered, self._executor.operation_numbers())
        size = max(lowered.frame.parameter_bytes, 16)
        return PreparedKernel(
            lowered=lowered,
            encoded=encoded,
            parameter_address=self._executor.allocate(size, f"parameters of {name}", False),
            order_matters=any(
                operation.handler == "print"
                or (operation.handler == "atomic" and self._table.atomics[operation.operation])
                for operation in lowered.microcode.operations
            ),
        )

    def _place_variables(self) -> dict[str, int]:
        variables = [v for v in self._module.variables.values() if v.space in ("global", "const")]
        symbols = {}
        for variable in variables:
            counted = variable.space == "global"
            try:
                symbols[variable.name] = self._executor.allocate(
                    max(variable.size, 1), variable.name, counted
                )
            except MemoryError as error:
                raise SimulatorRefusal(f"not simulated: {error}") from error
        for variable in variables:
            data = bytearray(variable.initial or b"")
            for at, reference in variable.references.items():
                if (
                    reference.name in symbols
                ):  # a kernel that names a variable with others is refused
                    bits = (symbols[reference.name] + reference.offset) & 2**64 - 1
                    kept = (bits >> reference.shift).to_bytes(8, "little")[: reference.size]
                    data[at : at + reference.size] = kept
            ctypes.memmove(symbols[variable.name], bytes(data), len(data))
            self._executor.note_written(symbols[variable.name], variable.size)
        return symbols
