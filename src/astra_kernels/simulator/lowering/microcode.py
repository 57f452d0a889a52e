"""What PTX is lowered to: a flat list of micro-operations on virtual registers."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import IntEnum
from typing import TypeAlias

from astra_kernels.simulator.ptx.syntax import Instruction


class Kind(IntEnum):
    """What a register holds; the numbers are the executor's `RegisterKind`."""

    NONE = 0
    PRED = 1
    LANES32 = 2
    LANES64 = 3


class Space(IntEnum):
    """Memory spaces; the numbers are the executor's `Space`."""

    GLOBAL = 0
    SHARED = 1
    LOCAL = 2
    GENERIC = 3
    CONSTANT = 4


SHARED_WINDOW = 1 << 60
LOCAL_WINDOW = 2 << 60
# `MemoryFields.counted_bytes` of an access that an earlier one counts for, or has made needless.
MERGED = 255
# What the checks make of an access by its modifiers: 1 strong, 2 by `volatile` only, 4 publishes what was before.
ORDERS = {"volatile": 3, "cv": 3, "relaxed": 1, "acquire": 1, "release": 5, "acq_rel": 5}
# What an instruction on fragments (`wmma`) consists of, in PTX and in machine code.
_FRAGMENT_STEPS = frozenset(
    {"load", "store", "load_matrices", "transpose_matrix", "multiply_matrices"}
)
# `MicroOp.mode` of a `nop` that is a fence.
FENCE = 1


@dataclass(frozen=True)
class Register:
    """A virtual register."""

    name: str
    kind: Kind


@dataclass(frozen=True)
class Constant:
    """The same bits in every lane."""

    bits: int
    kind: Kind


@dataclass(frozen=True)
class Parameter:
    """A kernel parameter's value, known at launch."""

    offset: int
    size: int
    signed: bool
    kind: Kind


@dataclass(frozen=True)
class LaunchValue:
    """A special register with one value for the launch or block (`%ntid.x`, `%ctaid.y`, ...)."""

    name: str
    kind: Kind = Kind.LANES32


@dataclass(frozen=True)
class ThreadValue:
    """A special register that is different in each thread (`%tid.x`, `%laneid`, ...)."""

    name: str
    kind: Kind = Kind.LANES32


@dataclass(frozen=True)
class GlobalSymbol:
    """The address of a module variable, known when the module is loaded."""

    name: str
    offset: int = 0
    kind: Kind = Kind.LANES64


@dataclass(frozen=True)
class ParameterBlock:
    """The address of the parameters in memory, for indexing into them."""

    offset: int
    kind: Kind = Kind.LANES64


Value: TypeAlias = (
    Register | Constant | Parameter | LaunchValue | ThreadValue | GlobalSymbol | ParameterBlock
)


@dataclass(frozen=True)
class MemoryFields:
    """How a memory access moves its data.

    Attributes:
        space: Where.
        element_bytes: Of one element.
        elements: 1, 2 or 4.
        sign_extend: Whether a narrow element is extended by its sign.
        register_kind: Of the data's registers.
        copy_offset: Added to the second address of an asynchronous copy.
        counted_bytes: Bytes a lane that this access counts for together with its neighbours, `MERGED`
            when it is one of those, 0 when it stands alone.
        order: Bits of `ORDERS`; of a barrier, 1 when lanes of a warp may come to it apart.
    """

    space: Space = Space.GLOBAL
    element_bytes: int = 0
    elements: int = 1
    sign_extend: bool = False
    register_kind: Kind = Kind.LANES32
    copy_offset: int = 0
    counted_bytes: int = 0
    order: int = 0


@dataclass(frozen=True)
class MatrixFields:
    """Which product of matrices a micro-operation computes; the result has 8 columns.

    Attributes:
        rows: Of A and of the result.
        depth: Columns of A and rows of B.
        types: PTX types of A, B, the accumulator and the result.
        saturate: Whether integers are clamped rather than wrapped.
    """

    rows: int
    depth: int
    types: tuple[str, str, str, str]
    saturate: bool = False


@dataclass
class MicroOp:
    """One step of the interpreter.

    Attributes:
        handler: Name of the executor's handler.
        operation: Name of the elementwise or atomic operation, where the handler has one.
        results: Registers written, None where discarded.
        sources: Values read, None where absent.
        guard: Predicate that enables it, and whether it is negated.
        target: Label of a branch.
        immediate: Added to an address; the number of groups of a wait.
        mode: Which of a handler's variants.
        polls: Whether a load or an atomic may be waiting for another block.
        memory: For memory accesses.
        matrix: For products of matrices.
        instruction: The PTX instruction it belongs to.
        counted: False for the second and later micro-operations of one PTX instruction.
    """

    handler: str
    operation: str = ""
    results: tuple[Register | None, ...] = ()
    sources: tuple[Value | None, ...] = ()
    guard: tuple[Register, bool] | None = None
    target: str | None = None
    immediate: int = 0
    mode: int = 0
    polls: bool = False
    memory: MemoryFields = field(default_factory=MemoryFields)
    matrix: MatrixFields | None = None
    instruction: Instruction | None = None
    counted: bool = True

    @property
    def issued(self) -> bool:
        """Whether machine code has an instruction for it, if only one of several of a PTX instruction."""
        memory = self.memory
        moves = self.handler in _FRAGMENT_STEPS and memory.space != Space.LOCAL
        return self.counted or (moves and memory.counted_bytes != MERGED)


@dataclass
class Microcode:
    """A kernel as micro-operations.

    Attributes:
        operations: In order; the last one always ends the thread.
        labels: Label to index of the operation that follows it.
    """

    operations: list[MicroOp]
    labels: dict[str, int]
