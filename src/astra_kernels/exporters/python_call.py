"""How a framework's Python reaches an operator, read off its own sources and tests; nothing is imported."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import PurePosixPath

from astra_kernels.extraction.project import Project
from astra_kernels.records.problem import Problem

_LIBRARY = re.compile(r"TORCH_LIBRARY\w*\(\s*(\w+)\s*,")
_MACROS = ("TORCH_EXTENSION_NAME",)
_TESTS = ("test", "tests")
_BENCHMARKS = ("benchmarks", "benchmark")
_ROOTS = ("", "python", "src")
"""Where a tree keeps its packages."""


@dataclass(frozen=True)
class PythonCall:
    """Imports that a test needs, the callable, and where a test of it belongs."""

    imports: tuple[str, ...]
    callable: str
    tests: str
    """Directory of the framework's tests of the operator, or where they would be."""
    benchmarks: str
    """Directory of its benchmarks, likewise."""
    seen_in: str
    """The file that it was read off."""


def python_call(project: Project, problem: Problem) -> PythonCall | None:
    """How Python calls a problem's operator; None where the sources do not show it."""
    assert problem.provenance is not None, "find_originals refuses such a problem"
    symbol = problem.provenance.symbol
    modules = dict(project.python(symbol))
    tests = sorted((p for p in modules if _is_test(p)), key=lambda p: (symbol not in p, p))
    place = str(PurePosixPath(tests[0]).parent) if tests else "tests"
    places = (place, _benchmarks(project, place))
    if problem.spec.binding == "torch":
        return _torch(project, symbol, modules, (tests, *places))
    if problem.spec.binding == "tvm-ffi":
        return _module_function(project, symbol, modules, places)
    return None


def _benchmarks(project: Project, tests: str) -> str:
    """Beside the tests, whichever of the usual two names is there."""
    parts = PurePosixPath(tests).parts
    last = max((i for i, part in enumerate(parts) if part in _TESTS), default=len(parts) - 1)
    for name in _BENCHMARKS:
        place = PurePosixPath(*parts[:last], name)
        if (project.root / place).is_dir():
            return str(place)
    return str(PurePosixPath(*parts[:last], _BENCHMARKS[0]))


def _is_test(path: str) -> bool:
    parts = PurePosixPath(path).parts
    return any(p in _TESTS for p in parts[:-1]) or parts[-1].startswith("test_")


def _torch(
    project: Project,
    symbol: str,
    modules: dict[str, ast.Module],
    tested: tuple[list[str], str, str],
) -> PythonCall | None:
    tests, place, benchmarks = tested
    seen = re.compile(rf"torch\.ops\.(\w+)\.{re.escape(symbol)}\b(?!\w)")
    library, where = "", ""
    for path in (*tests, *modules):
        found = seen.search(project.read(path))
        if found:
            library, where = found[1], path
            break
    if not library:
        for path, text in project.units.items():
            named = [n for n in _LIBRARY.findall(text) if n not in _MACROS]
            if named and re.search(rf'"{re.escape(symbol)}[("]', text):
                library, where = named[0], path
                break
    if not library:
        return None
    imports = {line: None for path in tests for line in _own_imports(project, modules[path])}
    if not imports:
        imports = {f"import {name}": None for name in _packages(project)[:1]}
    return PythonCall(tuple(imports), f"torch.ops.{library}.{symbol}", place, benchmarks, where)


def _module_function(
    project: Project, symbol: str, modules: dict[str, ast.Module], places: tuple[str, str]
) -> PythonCall | None:
    """A call such as `get_norm_module().rmsnorm(...)`, which reaches the exported function itself."""
    for path, tree in modules.items():
        for node in ast.walk(tree):
            match node:
                case ast.Call(
                    func=ast.Attribute(
                        value=ast.Call(func=ast.Name(id=getter), args=[], keywords=[]), attr=name
                    )
                ) if name == symbol:
                    module = ".".join(PurePosixPath(path).with_suffix("").parts)
                    module = module.removesuffix(".__init__")
                    line = f"from {module} import {getter}"
                    return PythonCall((line,), f"{getter}().{symbol}", *places, path)
    return None


def _own_imports(project: Project, tree: ast.Module) -> Iterator[str]:
    """Imports of the framework's own packages that a test makes, whole modules only."""
    packages = _packages(project)
    for node in tree.body:
        if isinstance(node, ast.Import):
            for alias in node.names:
                if alias.name.partition(".")[0] in packages:
                    yield f"import {alias.name}"
        elif isinstance(node, ast.ImportFrom) and not node.level:
            module = node.module or ""
            if module.partition(".")[0] in packages:
                named = (f"{module}.{alias.name}" for alias in node.names)
                modules = [name for name in named if _is_module(project, name)]
                yield from (f"import {name}" for name in modules or [module])


def _is_module(project: Project, name: str) -> bool:
    path = name.replace(".", "/")
    files = (f"{path}.py", f"{path}/__init__.py")
    return any((project.root / root / file).is_file() for root in _ROOTS for file in files)


def _packages(project: Project) -> tuple[str, ...]:
    """Names of the tree's own Python packages."""
    found = {
        path.parent.name for root in _ROOTS for path in (project.root / root).glob("*/__init__.py")
    }
    return tuple(sorted(found - {"tests", "test", "benchmarks", "benchmark"}))
