"""From a symbol to the function that it names, and how a caller reaches it."""

from __future__ import annotations

import difflib
import keyword
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from astra_kernels.errors import UserError
from astra_kernels.extraction.instances import Instance, instance_of
from astra_kernels.extraction.project import Project
from astra_kernels.extraction.syntax import Function, functions, without_comments

Binding = Literal["c", "tvm-ffi", "torch"]
_TVM = re.compile(r"TVM_FFI_DLL_EXPORT_TYPED_FUNC\(\s*(\w+)\s*,\s*&?\s*([\w:]+)\s*\)")
_REGISTERED = re.compile(
    r'\.\s*(?:def|impl)\(\s*"(?:\w+::)?(\w+)[^"]*"\s*,(?:\s*[\w:]+\s*,)?\s*&?\s*([\w:]+)\s*[,)]'
)
_SCHEMA = re.compile(r'\.\s*def\(\s*((?:"[^"]*"\s*)+)')
_TENSOR = re.compile(r"\b(?:TensorView|Tensor)\b")
_EXPORTING = ("TVM_FFI_DLL_EXPORT", "TORCH_LIBRARY", "PYBIND11_MODULE")
_MOST_SHOWN = 12


@dataclass(frozen=True)
class Operator:
    """What is taken out: a host function, or a kernel that nothing launches for us."""

    symbol: str
    """The name it is exported by."""
    function: Function
    binding: Binding
    schema: str = ""
    """As `TORCH_LIBRARY` registers it."""
    instance: Instance | None = None
    """Of which template it is one."""

    @property
    def called(self) -> str:
        """How C++ calls it."""
        if self.instance is not None:
            return self.instance.called(self.function.namespace)
        return self.function.qualified

    @property
    def defined(self) -> str:
        """The definition of the file that has it: itself, or its class."""
        return self.instance.name if self.instance is not None else self.function.name


def find_operator(project: Project, symbol: str, at: str | None = None) -> Operator:
    """The operator that `symbol` names: an exported name, a function, or a kernel.

    Args:
        project: where to look.
        symbol: its name, with its namespace or without.
        at: `FILE:LINE` of its definition, where the name alone does not decide.

    Raises:
        UserError: there is none, or there are several.
    """
    if (instance := instance_of(symbol)) is not None:
        return _instance(project, instance, at)
    wanted = symbol.rpartition("::")[2]
    exports = dict(_exports(project, wanted))
    callee = exports.get(wanted, symbol)
    found = _once(project, _definitions(project, callee))
    if not found and callee != symbol:
        found = _once(project, _definitions(project, symbol))
    operators = [f for f in found if _binding(f) != "c" or 'extern "C"' in f.returns]
    found = operators or [f for f in found if not f.kernel] or found
    if at is not None:
        found = [f for f in found if _lies_at(f, at)]
    if len(found) > 1 and wanted in exports:
        # An export names what its namespace has, though a function elsewhere may have the same name.
        named = [f for f in found if f.qualified == callee.removeprefix("::")]
        found = named if len(named) == 1 else found
    if not found:
        raise UserError(_unknown(project, symbol, at))
    function = _readable(_single(symbol, found))
    binding = _binding(function)
    name = wanted if wanted in exports else function.name
    schema = _schema(project, wanted) if binding == "torch" else ""
    return Operator(name, function, binding, schema)


def _single(symbol: str, found: list[Function]) -> Function:
    if len(found) > 1:
        listed = "".join(f"\n  {f.place}  {f.signature}" for f in found[:_MOST_SHOWN])
        raise UserError(
            f"{symbol}: {len(found)} functions have this name; choose one with --at FILE:LINE:{listed}"
        )
    return found[0]


def _readable(function: Function) -> Function:
    """Parameters become those of a Python function: `in` is read as `in_`. The sources stay as they are."""
    text, parameters = function.text, []
    for parameter in function.parameters:
        name = f"{parameter.name}_" if keyword.iskeyword(parameter.name) else parameter.name
        if name != parameter.name:
            text = re.sub(rf"\b{parameter.name}\b", name, text)
        parameters.append(replace(parameter, name=name))
    return replace(function, text=text, parameters=tuple(parameters))


def _instance(project: Project, instance: Instance, at: str | None) -> Operator:
    symbol = instance.written
    found = _once(project, instance.definitions(project))
    if at is not None:
        found = [f for f in found if _lies_at(f, at)]
    if not found:
        kind = "class template with this member" if instance.member else "function template"
        raise UserError(f"{symbol}: no {kind} in {project.release.name}{f' at {at}' if at else ''}")
    function = _readable(_single(symbol, found))
    if _binding(function) != "tvm-ffi":
        raise UserError(
            f"{function.place}: {symbol}: of templates only those can be taken out that take TensorView, as jit kernels do"
        )
    return Operator(instance.exported(project), function, "tvm-ffi", instance=instance)


def _once(project: Project, functions: Iterable[Function]) -> list[Function]:
    """Without those that a link shows again; the file itself counts."""
    found: dict[tuple[Path, int], Function] = {}
    for function in functions:
        path = project.root / function.path
        key = (path.resolve(), function.line)
        if key not in found or not path.is_symlink():
            found[key] = function
    return list(found.values())


def _exports(project: Project, name: str) -> Iterator[tuple[str, str]]:
    """What `name` is exported for, wherever that is written."""
    for text in project.units.values():
        if name not in text or not any(word in text for word in _EXPORTING):
            continue
        for pattern in (_REGISTERED, _TVM):
            for exported, callee in pattern.findall(without_comments(text)):
                if exported == name:
                    yield exported, callee


def _definitions(project: Project, symbol: str) -> Iterator[Function]:
    scope, _, name = symbol.rpartition("::")
    defines = re.compile(rf"\b{re.escape(name)}\s*\(")
    for path, text in project.units.items():
        if name in text and defines.search(text):
            for function in functions(text, path):
                inside = f"::{function.namespace}".endswith(f"::{scope}") if scope else True
                if function.name == name and inside and "__device__" not in function.returns:
                    yield _c_linkage(function, text)


def _c_linkage(function: Function, text: str) -> Function:
    """An `extern "C"` in front of a definition stands outside of it in the tree."""
    line = text.splitlines()[function.line - 1 : function.line]
    if any('extern "C"' in one for one in line) and 'extern "C"' not in function.returns:
        return replace(function, returns=f'extern "C" {function.returns}')
    return function


def _binding(function: Function) -> Binding:
    types = " ".join(p.type for p in function.parameters)
    if re.search(r"\bTensorView\b|\bffi::Tensor\b", types):
        return "tvm-ffi"
    if _TENSOR.search(types):
        torch = re.search(r"\b(?:at|torch)::(?:stable::)?Tensor\b", types)
        return "torch" if torch or "#include <torch" in function.text else "tvm-ffi"
    return "c"


def _lies_at(function: Function, at: str) -> bool:
    path, _, line = at.rpartition(":")
    if not path or not line.isdigit():
        raise UserError(f"--at {at}: give FILE:LINE")
    last = function.line + function.text.count("\n")
    return f"/{function.path}".endswith(f"/{path}") and function.line <= int(line) <= last


def _schema(project: Project, name: str) -> str:
    for text in project.units.values():
        for literals in _SCHEMA.findall(text) if name in text else ():
            schema = "".join(re.findall(r'"([^"]*)"', literals))
            if re.match(rf"(?:\w+::)?{re.escape(name)}(?:\.\w+)?\(", schema):
                return schema
    return ""


def _unknown(project: Project, symbol: str, at: str | None) -> str:
    if at is not None:
        return f"{symbol}: no definition of this name at {at}"
    names: set[str] = set()
    for path, text in project.units.items():
        names |= {n for n, _ in _TVM.findall(text)} | {n for n, _ in _REGISTERED.findall(text)}
        if symbol.lower()[:4] in text.lower():
            names |= {f.name for f in functions(text, path) if "__device__" not in f.returns}
    near = difflib.get_close_matches(symbol.rpartition("::")[2], sorted(names), n=5, cutoff=0.6)
    if not project.units:
        return f"{symbol}: there is no CUDA source below {project.root}"
    advice = f"; near names: {', '.join(near)}" if near else ""
    return (
        f"{symbol}: no operator, function or kernel of this name in {project.release.name}{advice}"
    )
