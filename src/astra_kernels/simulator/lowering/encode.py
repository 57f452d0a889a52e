"""Microcode to the executor's binary form. The layouts mirror `executor/program.h`."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from astra_kernels.simulator.lowering.allocate import allocate_slots
from astra_kernels.simulator.lowering.lower import LoweredKernel
from astra_kernels.simulator.lowering.microcode import (
    Constant,
    GlobalSymbol,
    Kind,
    LaunchValue,
    MatrixFields,
    MicroOp,
    Parameter,
    ParameterBlock,
    Register,
    ThreadValue,
    Value,
)
from astra_kernels.simulator.lowering.translate import lane_values

_LANES32_BYTES = 128
_LANES64_BYTES = 256
_CONSTANT = 1 << 30
_NONE = -1
# The warp's registers start with these, the constants with the block's index (block.cpp).
_THREAD_SLOTS = {"%tid.x": 0, "%tid.y": 128, "%tid.z": 256, "%warpid": 384}
_BLOCK_SLOTS = {"%ctaid.x": 0, "%ctaid.y": 128, "%ctaid.z": 256}
_MAX_RESULTS, _MAX_SOURCES = 4, 6
# The order is that of matrix_operations.cpp.
_MATRIX_TYPES = ("f16", "bf16", "tf32", "f64", "s8", "u8", "e4m3", "e5m2", "f32", "s32")

INSTRUCTION = np.dtype(
    {
        "names": [
            "handler", "operation", "register_kind", "guard_negated", "counted", "space", "guard",
            "results", "sources", "target", "immediate", "element_bytes", "elements",
            "sign_extend", "mode", "address_bytes", "counted_bytes", "order", "copy_offset",
        ],
        "formats": [
            "u2", "u2", "u1", "u1", "u1", "u1", "i4", "4i4", "6i4", "i4", "i8",
            "u1", "u1", "u1", "u1", "u1", "u1", "u1", "i8",
        ],
        "offsets": [0, 2, 4, 5, 6, 7, 8, 12, 28, 52, 56, 64, 65, 66, 67, 68, 69, 70, 72],
        "itemsize": 80,
    }
)  # fmt: skip


@dataclass(frozen=True)
class OperationNumbers:
    """The executor's numbers for the names that microcode uses."""

    handlers: dict[str, int]
    elementwise: dict[str, int]
    atomics: dict[str, int]


@dataclass(frozen=True)
class EncodedKernel:
    """A kernel that the executor can run.

    Attributes:
        code: Of type `INSTRUCTION`.
        lists: Operands of the instructions that have more than a row has room for.
        constants: The constants' first state; `fill_constants` puts in what a launch decides.
        places: Where in the constants each value lies.
        warp_bytes: Of a warp's register file.
        live_words: 32-bit registers a thread that are live at once, at most.
    """

    code: NDArray[np.void]
    lists: NDArray[np.int32]
    constants: NDArray[np.uint8]
    places: dict[Value, int]
    warp_bytes: int
    live_words: int


class _Constants:
    """Assigns places to the values that are the same in every warp."""

    def __init__(self) -> None:
        self.places: dict[Value, int] = {}
        self.size = len(_BLOCK_SLOTS) * _LANES32_BYTES

    def place(self, value: Value) -> int:
        if isinstance(value, LaunchValue) and value.name in _BLOCK_SLOTS:
            return _BLOCK_SLOTS[value.name]
        if value not in self.places:
            self.places[value] = self.size
            wide = value.kind == Kind.LANES64
            self.size += _LANES64_BYTES if wide else _LANES32_BYTES
        return self.places[value]


def _write_constant(constants: NDArray[np.uint8], at: int, value: Value) -> None:
    if isinstance(value, Constant):
        fill(constants, at, value.kind, value.bits)
    elif isinstance(value, ThreadValue):
        lanes = np.array(lane_values(value.name), np.uint32)
        constants[at : at + _LANES32_BYTES] = lanes.view(np.uint8)


def fill(constants: NDArray[np.uint8], at: int, kind: Kind, bits: int) -> None:
    """Write the same bits to every lane of the constant at `at`."""
    wide = kind == Kind.LANES64
    size, dtype = (_LANES64_BYTES, "u8") if wide else (_LANES32_BYTES, "u4")
    constants[at : at + size].view(dtype)[:] = bits


def encode_kernel(kernel: LoweredKernel, numbers: OperationNumbers) -> EncodedKernel:
    """Assign slots and constants, and write the program in binary."""
    microcode = kernel.microcode
    slots = allocate_slots(microcode, len(_THREAD_SLOTS) * _LANES32_BYTES)
    constants = _Constants()

    def operand(value: Value | None) -> int:
        if value is None:
            return _NONE
        if isinstance(value, Register):
            return slots.offsets[value]
        if isinstance(value, ThreadValue) and value.name in _THREAD_SLOTS:
            return _THREAD_SLOTS[value.name]
        return constants.place(value) | _CONSTANT

    lists: list[int] = []
    code = np.zeros(len(microcode.operations), INSTRUCTION)
    code["results"] = code["sources"] = code["guard"] = _NONE
    for row, operation in zip(code, microcode.operations, strict=True):
        row["handler"] = numbers.handlers[
            f"polling_{operation.handler}" if operation.polls else operation.handler
        ]
        if operation.handler == "elementwise":
            row["operation"] = numbers.elementwise[operation.operation]
            # The executor looks at four sources; absent ones must still be addresses.
            row["sources"][:_MAX_SOURCES] = 0
        elif operation.handler == "atomic":
            row["operation"] = numbers.atomics[operation.operation]
        row["register_kind"] = _register_kind(operation)
        row["counted"] = operation.counted
        if operation.guard:
            row["guard"] = slots.offsets[operation.guard[0]]
            row["guard_negated"] = operation.guard[1]
        for index, result in enumerate(operation.results[:_MAX_RESULTS]):
            row["results"][index] = operand(result)
        for index, source in enumerate(operation.sources[:_MAX_SOURCES]):
            row["sources"][index] = operand(source)
        if operation.target is not None:
            row["target"] = microcode.labels[operation.target]
        row["immediate"] = operation.immediate
        row["mode"] = operation.mode
        _encode_memory(row, operation)
        if operation.matrix is not None:
            row["target"] = len(lists)
            lists += [operand(value) for value in operation.results]
            lists += [operand(value) for value in operation.sources[_MAX_SOURCES:]]
            _encode_matrix(row, operation.matrix)
    block = np.zeros(constants.size, np.uint8)
    for value, at in constants.places.items():
        _write_constant(block, at, value)
    listed = np.array(lists or [_NONE], np.int32)
    return EncodedKernel(code, listed, block, constants.places, slots.total_bytes, slots.live_words)


def _register_kind(operation: MicroOp) -> Kind:
    if operation.handler == "elementwise":
        result = operation.results[0]
        return result.kind if result else Kind.NONE
    return operation.memory.register_kind


def _encode_memory(row: np.void, operation: MicroOp) -> None:
    memory = operation.memory
    row["space"] = memory.space
    row["element_bytes"] = memory.element_bytes
    row["elements"] = memory.elements
    row["sign_extend"] = memory.sign_extend
    row["counted_bytes"] = memory.counted_bytes
    row["copy_offset"] = memory.copy_offset
    row["order"] = memory.order
    if operation.sources and operation.sources[0] is not None:
        row["address_bytes"] = 8 if operation.sources[0].kind == Kind.LANES64 else 4


def _encode_matrix(row: np.void, matrix: MatrixFields) -> None:
    numbers = (_MATRIX_TYPES.index(ptx_type) for ptx_type in matrix.types)
    row["operation"] = sum(number << (4 * place) for place, number in enumerate(numbers))
    row["element_bytes"], row["elements"] = matrix.rows, matrix.depth
    row["sign_extend"] = matrix.saturate


def fill_constants(
    kernel: EncodedKernel,
    launch_values: dict[str, int],
    parameters: bytes,
    parameter_address: int,
    symbols: dict[str, int],
) -> NDArray[np.uint8]:
    """The constants of one launch.

    Args:
        kernel: Whose constants.
        launch_values: Special registers with one value for the launch.
        parameters: The kernel's parameters, as laid out by `Frame`.
        parameter_address: Where they lie in device memory.
        symbols: Addresses of the module's variables.
    """
    constants = kernel.constants.copy()
    for value, at in kernel.places.items():
        match value:
            case LaunchValue(name):
                bits = launch_values[name]
            case Parameter(offset, size, signed):
                data = parameters[offset : offset + size]
                bits = int.from_bytes(data, "little", signed=signed)
                bits &= 2**64 - 1 if value.kind == Kind.LANES64 else 2**32 - 1
            case ParameterBlock(offset):
                bits = parameter_address + offset
            case GlobalSymbol(name, offset):
                bits = symbols[name] + offset
            case _:
                continue
        fill(constants, at, value.kind, bits)
    return constants
