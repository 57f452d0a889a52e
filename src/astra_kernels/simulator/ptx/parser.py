"""PTX text to a `Module`, and a function's text to its `Body`."""

from __future__ import annotations

import re
from collections.abc import Callable

from astra_kernels.simulator.errors import InvalidPtx, UnsupportedPtx
from astra_kernels.simulator.ptx.lines import LineTable
from astra_kernels.simulator.ptx.operands import (
    IDENTIFIER,
    parse_operand,
    parse_variable,
    split_operands,
)
from astra_kernels.simulator.ptx.syntax import (
    Address,
    Body,
    Call,
    Function,
    Guard,
    Instruction,
    Label,
    Literal,
    Module,
    Name,
    Not,
    Operand,
    Pair,
    Statement,
    Variable,
    Vector,
)

_MOST_REGISTERS = 1_000_000
_COMMENT = re.compile(r"/\*.*?\*/|//[^\n]*", re.DOTALL)
_LINE_DIRECTIVE = re.compile(r"\.(version|target|address_size|file|pragma|alias)\b[^\n]*")
_SECTION = re.compile(r"\.section\b[^{]*\{[^}]*\}")
_FUNCTION = re.compile(
    r"(?:\.(?:visible|weak|extern|common)\s+)*\.(?P<kind>entry|func)\s*(?P<returns>\([^)]*\))?\s*"
    rf"(?P<name>{IDENTIFIER})\s*(?:\((?P<parameters>[^)]*)\))?\s*(?P<directives>[^{{;]*)(?P<end>[{{;])"
)
_SPACE = re.compile(r"\.(global|shared|const|local|param)\b")
_TOKEN = re.compile(
    r"\s*(?:(?P<brace>[{}])"
    r"|\.loc\s+(?P<loc>[^\n]*)"
    rf"|(?P<label>{IDENTIFIER})\s*:(?!:)"
    r"|(?P<statement>[^;]*);)"
)
_GUARDED = re.compile(rf"@(!?)\s*({IDENTIFIER})\s+(.*)", re.DOTALL)
_CALL = re.compile(
    rf"call(?:\.uni)?\s*(?:\((?P<returns>[^)]*)\)\s*,)?\s*(?P<callee>{IDENTIFIER})\s*"
    rf"(?:,\s*\((?P<arguments>[^)]*)\))?\s*(?:,\s*{IDENTIFIER}\s*)?$"
)


def parse_module(text: str) -> Module:
    """Parse a module's declarations; function bodies are kept as text.

    Raises:
        InvalidPtx: The text is not PTX as nvcc writes it.
    """
    text = _COMMENT.sub(" ", text)
    files = {int(number): path for number, path in re.findall(r'\.file\s+(\d+)\s+"(.*?)"', text)}
    target = re.search(r"\.target\s+(\w+)", text)
    module = Module(target[1] if target else "", {}, {}, files)
    at = 0
    while at < len(text):
        if text[at].isspace():
            at += 1
        elif skipped := _LINE_DIRECTIVE.match(text, at) or _SECTION.match(text, at):
            at = skipped.end()
        elif header := _FUNCTION.match(text, at):
            at = _add_function(module, text, header)
        else:
            at = _add_variable(module, text, at)
    return module


def _add_function(module: Module, text: str, header: re.Match[str]) -> int:
    if header["end"] == ";":
        return header.end()
    depth, end = 1, header.end()
    while depth:
        brace = re.compile(r"[{}]").search(text, end)
        if not brace:
            raise InvalidPtx(f"function {header['name']} has no end")
        depth += 1 if brace[0] == "{" else -1
        end = brace.end()
    module.functions[header["name"]] = Function(
        name=header["name"],
        entry=header["kind"] == "entry",
        parameters=_parameters(header["parameters"]),
        returns=_parameters((header["returns"] or "()")[1:-1]),
        directives=header["directives"].strip(),
        text=text[header.end() : end - 1],
    )
    return end


def _parameters(text: str | None) -> tuple[Variable, ...]:
    return tuple(parse_variable(item, "param") for item in split_operands(text or ""))


def _add_variable(module: Module, text: str, at: int) -> int:
    end = text.find(";", at)
    if end < 0:
        raise InvalidPtx(f"declaration without an end: {text[at : at + 80]!r}")
    declaration = text[at:end]
    space = _SPACE.search(declaration)
    if not space:
        raise InvalidPtx(f"declaration {declaration.strip()[:80]!r}")
    variable = parse_variable(declaration, space[1])
    module.variables[variable.name] = variable
    return end + 1


class _Scopes:
    """Names declared in inner braces get a number, so that they are unique in the function."""

    def __init__(self) -> None:
        self._stack: list[dict[str, str]] = [{}]
        self._count = 0

    def enter(self) -> None:
        self._stack.append({})

    def leave(self) -> None:
        self._stack.pop()

    def declare(self, name: str) -> str:
        if len(self._stack) == 1:
            return name
        self._count += 1
        unique = f"{name}@{self._count}"
        self._stack[-1][name] = unique
        return unique

    def resolve(self, name: str) -> str:
        for scope in reversed(self._stack):
            if name in scope:
                return scope[name]
        return name


def rename_operand(operand: Operand, rename: Callable[[str], str]) -> Operand:
    """The operand with each name replaced."""
    match operand:
        case Name(name, offset):
            return Name(rename(name), offset)
        case Address(Name(name, offset), distance):
            return Address(Name(rename(name), offset), distance)
        case Vector(items):
            return Vector(tuple(rename_operand(item, rename) for item in items))
        case Pair(first, second):
            return Pair(Name(rename(first.name)), Name(rename(second.name)))
        case Not(name):
            return Not(Name(rename(name.name)))
        case Literal() | Address():
            return operand


class _BodyParser:
    def __init__(self, function: Function, module: Module) -> None:
        self._function = function
        self._scopes = _Scopes()
        self._lines = LineTable(module.files)
        self._body = Body({}, [], [], {})
        self._table: str | None = None

    def parse(self, text: str) -> Body:
        at = 0
        while token := _TOKEN.match(text, at):
            at = token.end()
            if brace := token["brace"]:
                self._scopes.enter() if brace == "{" else self._scopes.leave()
            elif loc := token["loc"]:
                self._lines.move_to(loc)
            elif label := token["label"]:
                self._table = label
                self._body.statements.append(Label(self._scopes.resolve(label)))
            elif statement := token["statement"].strip():
                self._statement(statement)
        if text[at:].strip():
            raise InvalidPtx(f"statement {text[at:].strip()[:80]!r}")
        return self._body

    def _statement(self, text: str) -> None:
        if text.startswith(".reg"):
            self._registers(text)
        elif text.startswith(".branchtargets"):
            targets = tuple(split_operands(text.removeprefix(".branchtargets")))
            self._body.branch_targets[self._table or ""] = targets
        elif text.startswith((".pragma", ".callprototype")):
            return
        elif text.startswith("."):
            space = _SPACE.search(text)
            if not space:
                raise InvalidPtx(f"directive {text[:80]!r}")
            variable = parse_variable(text, space[1])
            unique = self._scopes.declare(variable.name)
            self._body.variables.append(
                Variable(**{**variable.__dict__, "name": unique})  # the rest is unchanged
            )
        else:
            try:
                self._body.statements.append(self._instruction(text))
            except InvalidPtx as error:
                construct, line = " ".join(text.split()), self._lines.current
                raise UnsupportedPtx(self._function.name, construct, str(error), line) from error

    def _registers(self, text: str) -> None:
        found = re.fullmatch(r"\.reg\s*\.(\w+)\s+(.*)", text, re.DOTALL)
        if not found:
            raise InvalidPtx(f"registers {text!r}")
        kind, names = found.groups()
        for name in split_operands(names):
            count = re.fullmatch(r"(.+)<(\d+)>", name)
            if count and len(self._body.registers) + int(count[2]) > _MOST_REGISTERS:
                raise InvalidPtx(f"more than {_MOST_REGISTERS} registers")
            for each in (
                [f"{count[1]}{index}" for index in range(int(count[2]))] if count else [name]
            ):
                self._body.registers[self._scopes.declare(each)] = kind

    def _instruction(self, text: str) -> Statement:
        guard = None
        rest = text
        if guarded := _GUARDED.match(text):
            guard = Guard(self._scopes.resolve(guarded[2]), guarded[1] == "!")
            rest = guarded[3]
        if call := _CALL.match(rest):
            names = [
                tuple(self._scopes.resolve(name) for name in split_operands(call[part] or ""))
                for part in ("returns", "arguments")
            ]
            tidy = " ".join(text.split())
            return Call(call["callee"], names[0], names[1], guard, self._lines.current, tidy)
        parts = re.match(r"(\S+)\s*(.*)", rest, re.DOTALL)
        if not parts:
            raise InvalidPtx(f"instruction {text!r}")
        opcode, operands = parts[1], parts[2]
        return Instruction(
            opcode=opcode,
            operands=tuple(
                rename_operand(parse_operand(item), self._scopes.resolve)
                for item in split_operands(operands)
            ),
            guard=guard,
            line=self._lines.current,
            innermost=self._lines.innermost,
            text=" ".join(text.split()),
        )


def parse_body(function: Function, module: Module) -> Body:
    """Parse a function's statements.

    Raises:
        UnsupportedPtx: An instruction has operands of a form that is not known.
    """
    return _BodyParser(function, module).parse(function.text)
