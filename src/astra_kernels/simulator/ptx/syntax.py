"""The parts of a PTX module, as the text has them.

Terms are those of the PTX ISA (docs.nvidia.com/cuda/parallel-thread-execution).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TypeAlias

from astra_kernels.simulator.records import SourceLine


@dataclass(frozen=True)
class Name:
    """A register, a variable, a label or a special register; `offset` for `symbol+4`."""

    name: str
    offset: int = 0


@dataclass(frozen=True)
class Literal:
    """A number; floating-point ones as their bits. `width` is 32 or 64 for `0f` and `0d`, else 0."""

    bits: int
    width: int = 0


@dataclass(frozen=True)
class Address:
    """`[base + offset]`."""

    base: Name | Literal
    offset: int = 0


@dataclass(frozen=True)
class Vector:
    """`{a, b, ...}`."""

    items: tuple[Operand, ...]


@dataclass(frozen=True)
class Pair:
    """`a|b`: two results."""

    first: Name
    second: Name


@dataclass(frozen=True)
class Not:
    """`!p`."""

    name: Name


Operand: TypeAlias = Name | Literal | Address | Vector | Pair | Not


@dataclass(frozen=True)
class Guard:
    """`@p` or `@!p`."""

    register: str
    negated: bool


@dataclass(frozen=True)
class Instruction:
    """One instruction.

    Attributes:
        opcode: With all modifiers: `ld.global.nc.v4.u32`.
        operands: In order.
        guard: The predicate it depends on.
        line: Where it comes from.
        text: As written, for messages.
        innermost: Where it comes from, in inlined code too.
    """

    opcode: str
    operands: tuple[Operand, ...]
    guard: Guard | None
    line: SourceLine | None
    text: str
    innermost: SourceLine | None = None

    @property
    def parts(self) -> list[str]:
        """The opcode split at its dots."""
        return self.opcode.split(".")


@dataclass(frozen=True)
class Call:
    """A direct call, with its parameters' names."""

    callee: str
    returns: tuple[str, ...]
    arguments: tuple[str, ...]
    guard: Guard | None
    line: SourceLine | None
    text: str


@dataclass(frozen=True)
class Label:
    """A branch target."""

    name: str


Statement: TypeAlias = Instruction | Call | Label


@dataclass(frozen=True)
class Reference:
    """An address in a variable's initial value.

    Attributes:
        name: Of the variable or function.
        offset: In bytes, added to its address.
        shift: The first of the address's bits that are kept; 0 but for `0xff00(name)` and the like.
        size: How many bytes of it are kept.
    """

    name: str
    offset: int
    shift: int
    size: int


@dataclass(frozen=True)
class Variable:
    """A variable or parameter.

    Attributes:
        space: `global`, `const`, `shared`, `local` or `param`.
        name: As written; unique in its function after parsing.
        size: In bytes; 0 for an array whose length is not given.
        alignment: In bytes.
        initial: The bytes it starts with, for module variables that say so.
        external: Whether it is declared `.extern`: dynamic shared memory.
        references: The addresses that the initial value holds, by where in it they are.
    """

    space: str
    name: str
    size: int
    alignment: int
    initial: bytes | None = None
    external: bool = False
    references: dict[int, Reference] = field(default_factory=dict)


@dataclass(frozen=True)
class Body:
    """What is between a function's braces.

    Attributes:
        registers: Name to type (`b32`, `f16`, `pred`, ...).
        variables: Shared, local and param variables.
        statements: In order.
        branch_targets: Tables of `brx.idx`, by label.
    """

    registers: dict[str, str]
    variables: list[Variable]
    statements: list[Statement]
    branch_targets: dict[str, tuple[str, ...]]


@dataclass(frozen=True)
class Function:
    """A kernel (`entry`) or a device function; its body stays text until it is needed."""

    name: str
    entry: bool
    parameters: tuple[Variable, ...]
    returns: tuple[Variable, ...]
    directives: str
    text: str


@dataclass(frozen=True)
class Module:
    """One PTX translation unit.

    Attributes:
        target: Such as `sm_90`.
        functions: By name, with bodies only.
        variables: By name.
        files: Paths by the number that `.loc` uses.
    """

    target: str
    functions: dict[str, Function]
    variables: dict[str, Variable]
    files: dict[int, str]
