"""Calls are expanded in place, so that a kernel is one list of instructions."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TypeAlias

from astra_kernels.simulator.errors import UnsupportedPtx
from astra_kernels.simulator.ptx.parser import parse_body, rename_operand
from astra_kernels.simulator.ptx.syntax import (
    Body,
    Call,
    Function,
    Guard,
    Instruction,
    Label,
    Module,
    Name,
)

_MAX_DEPTH = 16
# What printf() and assert() call. They stay calls, with the names of their parameters as operands.
_SYSTEM_CALLS = ("vprintf", "__assertfail")
Rename: TypeAlias = Callable[[str], str]


class _Inliner:
    def __init__(self, module: Module, kernel: str) -> None:
        self._module = module
        self._kernel = kernel
        self._calls = 0
        self._open: list[str] = []
        self.body = Body({}, [], [], {})

    def expand(
        self, function: Function, prefix: str, aliases: dict[str, str], end: str | None, depth: int
    ) -> None:
        body = parse_body(function, self._module)
        local = {*body.registers, *(variable.name for variable in body.variables)}
        local |= {item.name for item in body.statements if isinstance(item, Label)}

        def rename(name: str) -> str:
            return aliases.get(name) or (prefix + name if name in local else name)

        self.body.registers.update((prefix + name, kind) for name, kind in body.registers.items())
        self.body.branch_targets.update(
            (prefix + table, tuple(prefix + label for label in labels))
            for table, labels in body.branch_targets.items()
        )
        for variable in body.variables:
            named = replace(variable, name=prefix + variable.name)
            self.body.variables.append(named)
        for statement in body.statements:
            match statement:
                case Label(name):
                    self.body.statements.append(Label(prefix + name))
                case Call():
                    self._call(statement, rename, depth)
                case Instruction():
                    self._instruction(statement, rename, end)

    def _instruction(self, instruction: Instruction, rename: Rename, end: str | None) -> None:
        guard = instruction.guard
        if guard:
            guard = Guard(rename(guard.register), guard.negated)
        operands = tuple(rename_operand(operand, rename) for operand in instruction.operands)
        if end is not None and instruction.opcode in ("ret", "ret.uni"):
            self.body.statements.append(
                replace(instruction, opcode="bra", operands=(Name(end),), guard=guard)
            )
            return
        self.body.statements.append(replace(instruction, operands=operands, guard=guard))

    def _refuse_call(self, call: Call, callee: Function | None, depth: int) -> None:
        """Refuse what cannot be expanded in place.

        Raises:
            UnsupportedPtx: Saying why.
        """
        reason = None
        if callee is None and call.callee.startswith("%"):
            reason = "a call through a pointer to a function (`call` of a register)"
        elif callee is None:
            reason = f"a call of {call.callee}, which the module does not hold"
        elif call.callee in self._open or depth >= _MAX_DEPTH:
            reason = f"recursion: {call.callee} calls itself"
        elif callee.entry:
            reason = "a call of a kernel"
        elif (len(callee.parameters), len(callee.returns)) != (
            len(call.arguments),
            len(call.returns),
        ):
            reason = f"a call with other parameters than {call.callee} has"
        if reason is not None:
            raise UnsupportedPtx(self._kernel, call.text, reason, call.line)

    def _call(self, call: Call, rename: Rename, depth: int) -> None:
        callee = self._module.functions.get(call.callee)
        if callee is None and call.callee in _SYSTEM_CALLS:
            guard = call.guard and Guard(rename(call.guard.register), call.guard.negated)
            names = tuple(Name(rename(name)) for name in (*call.returns, *call.arguments))
            opcode = f"call.{call.callee}"
            self.body.statements.append(Instruction(opcode, names, guard, call.line, call.text))
            return
        self._refuse_call(call, callee, depth)
        assert callee is not None
        self._calls += 1
        prefix = f"call{self._calls}~"
        end = f"{prefix}end"
        aliases = {
            formal.name: rename(actual)
            for formal, actual in zip(callee.parameters, call.arguments, strict=True)
        }
        aliases |= {
            formal.name: rename(actual)
            for formal, actual in zip(callee.returns, call.returns, strict=True)
        }
        if call.guard:
            skip = Guard(rename(call.guard.register), not call.guard.negated)
            self.body.statements.append(
                Instruction("bra", (Name(end),), skip, call.line, call.text)
            )
        self._open.append(call.callee)
        self.expand(callee, prefix, aliases, end, depth + 1)
        self._open.pop()
        self.body.statements.append(Label(end))


def inline_calls(module: Module, kernel: Function) -> Body:
    """The kernel's body with each direct call replaced by the callee's body.

    Raises:
        UnsupportedPtx: A callee has no body in the module (`vprintf`), or calls itself.
    """
    inliner = _Inliner(module, kernel.name)
    inliner.expand(kernel, "", {}, None, 0)
    return inliner.body
