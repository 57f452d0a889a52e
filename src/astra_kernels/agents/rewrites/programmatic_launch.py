"""Kernels that may start while the one before them in the stream still runs, and wait for it inside.

The launch gets the attribute of programmatic stream serialization; the kernel waits with
``cudaGridDependencySynchronize`` (CUDA C++ Programming Guide, programmatic dependent launch) before
any thread touches memory or leaves. What stands in front of the wait, declarations that only
compute, then overlaps with the end of the kernel before. ``trigger=start`` also lets the kernel behind
this one start early, from the wait on; if it reads anything it waits by itself, or is launched
without the attribute and starts afterwards.

Loads that the compiler takes for those of constant memory (``ld.global.nc``) are free to move over
the wait by its rules. It stands in the first block of the kernel, where nvcc 13 moves none of them.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from astra_kernels.agents.rewrites.edits import Editor
from astra_kernels.agents.rewrites.launches import Launch, OpaqueLaunch, launches
from astra_kernels.agents.rewrites.loops import is_cast
from astra_kernels.agents.rewrites.program import Applied, ParameterPoint, Program, Refused
from astra_kernels.agents.rewrites.reach import Function, Reachable, broken, reach
from astra_kernels.agents.rewrites.scope import Scope
from astra_kernels.agents.rewrites.syntax import (
    Node,
    arguments,
    find,
    line_of,
    operator,
    text_of,
    words,
)

_TRIGGERS = ("none", "start")
_WAITS = ("griddepcontrol.wait", "cudaGridDependencySynchronize")
_SILENT = words(
    "comment alias_declaration type_definition static_assert_declaration using_declaration"
)
_WORDS = words("threadIdx blockIdx blockDim gridDim static_cast reinterpret_cast")
_PLAIN_VALUE = re.compile(r"[\s()\d.fFuUlLxX+*/-]*")


class ProgrammaticLaunch:
    """Launches kernels early; points say whether they let the next one start early as well."""

    name = "programmatic_launch"
    technique = "programmatic_launch"
    sample = ParameterPoint.of(trigger="none")

    def parameters(self, program: Program) -> tuple[ParameterPoint, ...]:
        """Returns both triggers, if a launch qualifies."""
        points = tuple(ParameterPoint.of(trigger=trigger) for trigger in _TRIGGERS)
        return tuple(p for p in points if isinstance(self.apply(program, p), Applied))

    def apply(self, program: Program, point: ParameterPoint) -> Applied | Refused:
        """Launches early whatever may be; ``trigger`` is none, or start: right behind the wait."""
        trigger = point.word("trigger")
        if trigger not in _TRIGGERS:
            return Refused(f"no such trigger: {point}")
        reachable = reach(program)
        if isinstance(reachable, Refused):
            return reachable
        editor = Editor()
        refusals: list[Refused] = []
        for kernel in reachable.kernels:
            own = _early_launches(kernel, reachable)
            place = _place(kernel, reachable) if not isinstance(own, Refused) else own
            if isinstance(place, Refused) or isinstance(own, Refused):
                refusals += [place] if isinstance(place, Refused) else []
                continue
            _wait(editor, kernel, place, trigger)
            for launch in own:
                _launch_early(editor, launch, _number(launch, reachable))
        if not editor.edits:
            return [*refusals, Refused("the entry reaches no kernel")][0]
        return editor.finish(
            program, "launched before the kernel before has ended", reachable.units
        )


def _early_launches(kernel: Function, reachable: Reachable) -> list[Launch] | Refused:
    """Returns a kernel's plain launches, or why one of its launches must stay."""
    if broken(kernel) is not None:
        return Refused(f"{kernel.name} does not parse cleanly", broken(kernel))
    if any(wait in text_of(f.node) for f in reachable.device for wait in _WAITS):
        return Refused("the device code waits for the kernel before already", kernel.line)
    if sum(f.name == kernel.name for f in (*reachable.functions, *reachable.others)) > 1:
        return Refused(f"{kernel.name} is the name of several functions", kernel.line)
    found: list[Launch] = []
    for launch in launches(reachable):
        if isinstance(launch, OpaqueLaunch):
            return Refused(launch.reason, launch.line)
        if launch.kernel != kernel.name:
            continue
        refusal = _unfit(launch, kernel)
        if refusal is not None:
            return refusal
        found.append(launch)
    return found or Refused(f"no launch of {kernel.name} is in reach", kernel.line)


def _unfit(launch: Launch, kernel: Function) -> Refused | None:
    """Returns why a launch cannot be written with ``cudaLaunchKernelEx``."""
    line, parent = line_of(launch.call), launch.call.parent
    if not any(child.type == "kernel_call_syntax" for child in launch.call.children):
        return Refused("the launch is no plain <<<...>>>", line)
    if parent is None or parent.type != "expression_statement":
        return Refused("the launch is no statement of its own", line)
    for given in arguments(launch.call):
        if given.type == "initializer_list" or text_of(given) in ("0", "0L", "NULL"):
            what = f"the argument {text_of(given)} means what the kernel's parameter makes of it"
            return Refused(what, line_of(given))
    function = launch.call.child_by_field_name("function")
    template = kernel.template
    if template is None or (function is not None and text_of(function) != kernel.name):
        listed = (
            next(find(function, "template_argument_list"), None) if function is not None else None
        )
        parameters = template.child_by_field_name("parameters") if template is not None else None
        wanted = len(parameters.named_children) if parameters is not None else 0
        if listed is None or len(listed.named_children) >= wanted:
            return None
    return Refused("the arguments decide the kernel's template", line)


@dataclass(frozen=True, eq=False)
class _Place:
    """The statement that the wait stands in front of, and how many declarations come before."""

    statement: Node
    before: int


def _place(kernel: Function, reachable: Reachable) -> _Place | Refused:
    """Returns the first statement of a kernel that may do more than compute."""
    before, scope = 0, Scope(kernel, reachable)
    for statement in kernel.body.named_children:
        if statement.type in _SILENT:
            continue
        if statement.type == "declaration" and _only_computes(statement, scope):
            before += 1
            continue
        return _Place(statement, before)
    return Refused(f"{kernel.name} does nothing", kernel.line)


def _only_computes(declaration: Node, scope: Scope) -> bool:
    """Tells whether a declaration touches no memory that another kernel could see."""
    for declarator in declaration.children_by_field_name("declarator"):
        value = declarator.child_by_field_name("value")
        if value is None:
            if declarator.type == "function_declarator":  # a constructor, perhaps
                return False
            continue
        if any(find(value, "subscript_expression", "lambda_expression", "gnu_asm_expression")):
            return False
        if any(operator(n) == "*" for n in find(value, "pointer_expression")):
            return False
        if any("->" in text_of(n) for n in find(value, "field_expression")):
            return False
        if not all(
            is_cast(call) or _is_pointer_cast(call) for call in find(value, "call_expression")
        ):
            return False
        if not all(_is_number(text_of(leaf), scope) for leaf in find(value, "identifier")):
            return False
    return True


def _is_number(name: str, scope: Scope) -> bool:
    """Tells whether a name is the kernel's own, or a constant that is written out."""
    if name in scope.declared or name in _WORDS:
        return True
    outer = scope.outer_constant(name)
    if outer is None or _PLAIN_VALUE.fullmatch(text_of(outer.value)) is None:
        return False
    declaration = outer.node.parent
    return outer.is_macro or (declaration is not None and "const" in text_of(declaration))


def _is_pointer_cast(call: Node) -> bool:
    return text_of(call.child_by_field_name("function")).startswith("reinterpret_cast")


def _wait(editor: Editor, kernel: Function, place: _Place, trigger: str) -> None:
    """Puts the wait, and the trigger behind it, in front of a statement."""
    unit, statement = kernel.unit, place.statement
    start = unit.text.rfind(b"\n", 0, statement.start_byte) + 1
    lead = unit.text[start : statement.start_byte].decode()
    indent = lead if not lead.strip() else " "
    lines = ["cudaGridDependencySynchronize();"]
    lines += ["cudaTriggerProgrammaticLaunchCompletion();"] if trigger == "start" else []
    what = f"{kernel.name} waits for the kernel before it, behind {place.before} declarations"
    editor.note(unit, statement, what)
    if statement.type.startswith("preproc"):
        editor.insert(unit, start, "".join(f"  {line}\n" for line in lines))
        return
    separator = f"\n{indent}" if not lead.strip() else " "
    editor.before(unit, statement, "".join(f"{line}{separator}" for line in lines))


def _number(launch: Launch, reachable: Reachable) -> str:
    """Returns a suffix that no other launch's variables have."""
    text = "".join(text_of(function.node) for function in reachable.host)
    known = [one for one in launches(reachable) if isinstance(one, Launch)]
    number = 1 + next(i for i, one in enumerate(known) if one.call == launch.call)
    while f"early_config_{number}" in text:
        number += len(known)
    return str(number)


def _launch_early(editor: Editor, launch: Launch, number: str) -> None:
    """Writes a launch with the attribute."""
    unit, statement = launch.host.unit, launch.call.parent
    function = text_of(launch.call.child_by_field_name("function"))
    syntax = next(c for c in launch.call.children if c.type == "kernel_call_syntax")
    given = [text_of(c) for c in syntax.named_children if c.type != "comment"]
    config, early = f"early_config_{number}", f"early_{number}"
    names = ("gridDim", "blockDim", "dynamicSmemBytes", "stream")
    lines = [
        f"cudaLaunchAttribute {early}[1];",
        f"{early}[0].id = cudaLaunchAttributeProgrammaticStreamSerialization;",
        f"{early}[0].val.programmaticStreamSerializationAllowed = 1;",
        f"cudaLaunchConfig_t {config} = {{}};",
        *(f"{config}.{name} = {value};" for name, value in zip(names, given, strict=False)),
        f"{config}.attrs = {early};",
        f"{config}.numAttrs = 1;",
        f"cudaLaunchKernelEx({', '.join([f'&{config}', function, *map(text_of, arguments(launch.call))])});",
    ]
    if statement is None:
        return
    start = unit.text.rfind(b"\n", 0, statement.start_byte) + 1
    match = re.match(r"\s*", unit.text[start : statement.start_byte].decode())
    indent = match.group() if match is not None else ""
    body = "".join(f"{indent}  {line}\n" for line in lines)
    editor.note(unit, statement, f"{launch.kernel} is launched early")
    editor.replace(unit, statement, f"{{\n{body}{indent}}}")
