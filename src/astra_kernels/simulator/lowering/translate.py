"""From PTX instructions to micro-operations.

Each family of instructions has its own module; this one holds what they share. An instruction that no
family takes, or whose full name the executor does not have, is refused.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NoReturn

from astra_kernels.simulator.errors import UnsupportedPtx
from astra_kernels.simulator.lowering.frame import Frame
from astra_kernels.simulator.lowering.microcode import (
    LOCAL_WINDOW,
    SHARED_WINDOW,
    Constant,
    GlobalSymbol,
    Kind,
    LaunchValue,
    MicroOp,
    ParameterBlock,
    Register,
    ThreadValue,
    Value,
)
from astra_kernels.simulator.ptx.operands import TYPE_BYTES
from astra_kernels.simulator.ptx.syntax import Instruction, Literal, Name, Not, Operand

_THREAD_VALUES = {"%tid.x", "%tid.y", "%tid.z", "%warpid"}
_LANE_VALUES: dict[str, Callable[[int], int]] = {
    "%laneid": lambda lane: lane,
    "%lanemask_eq": lambda lane: 1 << lane,
    "%lanemask_lt": lambda lane: (1 << lane) - 1,
    "%lanemask_le": lambda lane: (2 << lane) - 1,
    "%lanemask_gt": lambda lane: 0xFFFFFFFF & ~((2 << lane) - 1),
    "%lanemask_ge": lambda lane: 0xFFFFFFFF & ~((1 << lane) - 1),
    # The simulator's own, for the layout of matrices; PTX has no such names.
    "lane / 4": lambda lane: lane // 4,
    "lane % 4": lambda lane: lane % 4,
    "lane % 8": lambda lane: lane % 8,
    "lane / 8 % 2": lambda lane: lane // 8 % 2,
    "lane / 16": lambda lane: lane // 16,
}
_LAUNCH_VALUES = {f"%{what}.{axis}" for what in ("ctaid", "ntid", "nctaid") for axis in "xyz"}
# The upper and the lower half of the address of a cooperative launch's workspace (driver_abi.h of
# cooperative groups in CUDA 13.0).
_LAUNCH_VALUES |= {"%envreg1", "%envreg2"}
_LAUNCH_VALUES |= {
    "%nwarpid",
    "%nsmid",
    "%dynamic_smem_size",
    "%total_smem_size",
    "%aggr_smem_size",
}
# Without clusters every block is one of its own: its index among the clusters is its own in the grid.
_ALONE = {
    **{f"%cluster_ctaid.{axis}": 0 for axis in "xyz"},
    **{f"%cluster_nctaid.{axis}": 1 for axis in "xyz"},
    "%cluster_ctarank": 0,
    "%cluster_nctarank": 1,
    "%is_explicit_cluster": 0,
}
_SAME_WITHOUT_CLUSTERS = {
    **{f"%clusterid.{axis}": f"%ctaid.{axis}" for axis in "xyz"},
    **{f"%nclusterid.{axis}": f"%nctaid.{axis}" for axis in "xyz"},
}


def lane_values(name: str) -> list[int]:
    """The 32 lanes of a special register that depends on the lane only."""
    return [_LANE_VALUES[name](lane) for lane in range(32)]


def kind_of_type(ptx_type: str) -> Kind:
    """The kind of register that holds a value of this type.

    Raises:
        KeyError: There is none (`b128`).
    """
    if ptx_type == "pred":
        return Kind.PRED
    return {1: Kind.LANES32, 2: Kind.LANES32, 4: Kind.LANES32, 8: Kind.LANES64}[
        TYPE_BYTES[ptx_type]
    ]


@dataclass(frozen=True)
class OperationTable:
    """What the executor implements.

    Attributes:
        elementwise: Name to the kinds of the result and the sources.
        atomics: Name to whether the order of threads changes the result.
    """

    elementwise: dict[str, tuple[Kind, tuple[Kind, ...]]]
    atomics: dict[str, bool]


@dataclass
class Translator:
    """Collects the micro-operations of one kernel."""

    kernel: str
    table: OperationTable
    frame: Frame
    registers: dict[str, Kind]
    branch_targets: dict[str, tuple[str, ...]]
    operations: list[MicroOp] = field(default_factory=list)
    labels: dict[str, int] = field(default_factory=dict)
    module_variables: frozenset[str] = frozenset()
    unknown_addresses: dict[str, str] = field(default_factory=dict)
    _temporaries: int = 0
    _current: Instruction | None = None
    _guard: tuple[Register, bool] | None = None
    _emitted: int = 0

    def begin(self, instruction: Instruction) -> None:
        """What is emitted from here on belongs to this instruction."""
        self._current = instruction
        self._emitted = 0
        guard = instruction.guard
        self._guard = (self.register(guard.register), guard.negated) if guard else None

    def refuse(self, reason: str) -> NoReturn:
        """Raise `UnsupportedPtx` for the present instruction."""
        current = self._current
        text, line = (current.text, current.line) if current else ("", None)
        raise UnsupportedPtx(self.kernel, text, reason, line)

    def emit(self, operation: MicroOp) -> None:
        """Append a micro-operation under the present instruction's guard."""
        operation.instruction = self._current
        operation.guard = self._guard if operation.guard is None else operation.guard
        operation.counted = self._emitted == 0
        self._emitted += 1
        self.operations.append(operation)

    def elementwise(self, name: str, result: Register, *sources: Value) -> None:
        """Append an elementwise operation whose kinds are known to fit."""
        if name not in self.table.elementwise:
            self.refuse(f"`{name}` is not implemented")
        self.emit(MicroOp("elementwise", name, (result,), sources))

    def temporary(self, kind: Kind) -> Register:
        """A fresh register."""
        self._temporaries += 1
        return Register(f"temporary{self._temporaries}", kind)

    def register(self, name: str) -> Register:
        """A register by its name."""
        if name not in self.registers:
            self.refuse(f"`{name}` is not a register")
        return Register(name, self.registers[name])

    def value(self, operand: Operand, kind: Kind) -> Value:
        """An operand as a value of this kind; wider registers are cut to their lower half."""
        match operand:
            case Literal(bits, width):
                if width and (width == 64) != (kind == Kind.LANES64):
                    self.refuse("a floating-point literal of another width")
                if kind == Kind.PRED:
                    return Constant(0xFFFFFFFF if bits else 0, kind)
                return Constant(bits & (2**64 - 1 if kind == Kind.LANES64 else 2**32 - 1), kind)
            case Name():
                return self._fit(self._named(operand), kind)
            case Not(name):
                result = self.temporary(Kind.PRED)
                self.elementwise("not.pred", result, self.value(name, Kind.PRED))
                return result
            case _:
                self.refuse("an operand of this form")

    def _fit(self, value: Value, kind: Kind) -> Value:
        if value.kind == kind:
            return value
        if isinstance(value, Constant) and Kind.PRED not in (kind, value.kind):
            return Constant(value.bits & (2**32 - 1 if kind == Kind.LANES32 else 2**64 - 1), kind)
        if value.kind == Kind.LANES64 and kind == Kind.LANES32:
            result = self.temporary(kind)
            self.elementwise("narrow.64", result, value)
            return result
        if isinstance(value, LaunchValue | ThreadValue) and kind == Kind.LANES64:
            result = self.temporary(kind)
            self.elementwise("zero_extend.64", result, value)
            return result
        self.refuse(f"an operand of {value.kind.name} where {kind.name} is needed")

    def _named(self, operand: Name) -> Value:
        name = _SAME_WITHOUT_CLUSTERS.get(operand.name, operand.name)
        if name in self.registers:
            return self.register(name)
        if name in _ALONE:
            return Constant(_ALONE[name], Kind.PRED if name.startswith("%is") else Kind.LANES32)
        if name in self.frame.shared:
            return Constant(self.frame.shared[name] + operand.offset, Kind.LANES64)
        if name in self.frame.local:
            return Constant(self.frame.local[name] + operand.offset, Kind.LANES64)
        if name in self.frame.parameters:
            return ParameterBlock(self.frame.parameters[name][0] + operand.offset)
        if name in self.unknown_addresses:
            other = self.unknown_addresses[name]
            self.refuse(
                f"`{name}` holds the address of {other}, which is no variable of the module"
            )
        if name in self.module_variables:
            return GlobalSymbol(name, operand.offset)
        if name in _THREAD_VALUES or name in _LANE_VALUES:
            return ThreadValue(name)
        if name in _LAUNCH_VALUES:
            return LaunchValue(name)
        if name == "%gridid":
            return LaunchValue(name, Kind.LANES64)
        if name == "%smid":
            return self._multiprocessor()
        if name == "WARP_SZ":
            return Constant(32, Kind.LANES32)
        self.refuse(f"`{name}` is not provided")

    def _multiprocessor(self) -> Register:
        """The block's multiprocessor, as if blocks were dealt out in turn."""
        index: Value = LaunchValue("%ctaid.z")
        for axis in "yx":
            sources = (index, LaunchValue(f"%nctaid.{axis}"), LaunchValue(f"%ctaid.{axis}"))
            index = self.temporary(Kind.LANES32)
            self.elementwise("mad.lo.u32", index, *sources)
        place = self.temporary(Kind.LANES32)
        self.elementwise("rem.u32", place, index, LaunchValue("%nsmid"))
        return place

    def result(self, operand: Operand) -> Register | None:
        """A result register; None for the sink `_`."""
        if not isinstance(operand, Name):
            self.refuse("a result of this form")
        return None if operand.name == "_" else self.register(operand.name)

    def write(self, operand: Operand, kind: Kind, signed: bool = False) -> Register:
        """The register that an operation of this kind writes, for the result `operand`.

        A wider destination is filled by `finish_write`.
        """
        target = self.result(operand)
        if target is None or target.kind != kind:
            if target and not (target.kind == Kind.LANES64 and kind == Kind.LANES32):
                self.refuse(f"a result of {target.kind.name} where {kind.name} is written")
            return self.temporary(kind)
        return target

    def finish_write(self, operand: Operand, written: Register, signed: bool) -> None:
        """Extend what was written to the width of the destination, when that is wider."""
        target = self.result(operand)
        if target is not None and target != written:
            extend = "sign_extend.64" if signed else "zero_extend.64"
            self.elementwise(extend, target, written)


def window_of(space: str) -> int:
    """Where a space starts in the generic address space."""
    return {"shared": SHARED_WINDOW, "local": LOCAL_WINDOW}.get(space, 0)
