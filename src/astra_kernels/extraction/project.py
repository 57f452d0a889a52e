"""A tree of sources: its files, and what its build files and Python code say about them."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

SOURCES = frozenset({".cu", ".cuh", ".h", ".hpp", ".hxx", ".cpp", ".cc", ".inl", ".inc"})
UNITS = frozenset({".cu", ".cpp", ".cc", ".cuh"})
_LIBRARIES = frozenset({"cutlass", "cccl", "cub", "thrust", "spdlog", "third_party", "3rdparty"})
_SKIPPED = frozenset({".git", "build", "node_modules", "__pycache__", "dist"})
_MOST_BYTES = 4 << 20
_FLAG = re.compile(r"""["'\s](-D[A-Z]\w+(?:=\w+)?|--?use_fast_math|--expt-[a-z-]+)(?=["'\s)])""")
_FLAG_FILES = ("setup.py", "CMakeLists.txt", "pyproject.toml", "setup.cfg")


@dataclass(frozen=True)
class Release:
    """Where the sources are from, as far as they say."""

    name: str
    version: str = ""
    commit: str = ""

    def __str__(self) -> str:
        commit = f" (commit {self.commit})" if self.commit else ""
        return f"{self.name} {self.version}".strip() + commit


@dataclass(frozen=True)
class Project:
    """A tree of sources."""

    root: Path
    release: Release
    generated: dict[str, str] = field(default_factory=dict)
    """Text of sources that the project writes when it runs, by the path they are given here."""
    licences: tuple[Path, ...] = ()
    """Its licence files, the most important one first."""
    prefix: str = ""
    """Of the root in the framework's repository."""
    moved: tuple[tuple[str, str], ...] = ()
    """Beginnings of paths that are other ones in the repository."""
    repository: bool = False
    """Whether the root lies in a Git repository that has its files."""

    @cached_property
    def files(self) -> tuple[str, ...]:
        """Paths of all source files below the root, libraries that it only brings along left out."""
        return tuple(sorted((*self.generated, *self._found())))

    def _found(self) -> Iterator[str]:
        for path in self.root.rglob("*"):
            parts = path.relative_to(self.root).parts
            wanted = path.suffix in SOURCES and not {*parts} & (_LIBRARIES | _SKIPPED)
            if wanted and path.is_file() and path.stat().st_size <= _MOST_BYTES:
                yield "/".join(parts)

    def read(self, path: str) -> str:
        """Text of a source."""
        if path in self.generated:
            return self.generated[path]
        return (self.root / path).read_bytes().decode(errors="replace")

    def in_repository(self, path: str) -> str:
        """The path that a file has in the framework's repository."""
        for here, there in self.moved:
            if path.startswith(here):
                return there + path.removeprefix(here)
        return self.prefix + path

    @cached_property
    def units(self) -> dict[str, str]:
        """Text of every file that may define or export an operator."""
        return {p: self.read(p) for p in self.files if Path(p).suffix in UNITS}

    @cached_property
    def by_name(self) -> dict[str, tuple[str, ...]]:
        """Paths by file name."""
        found: dict[str, list[str]] = {}
        for path in self.files:
            found.setdefault(path.rpartition("/")[2], []).append(path)
        return {name: tuple(paths) for name, paths in found.items()}

    def python(self, word: str) -> Iterator[tuple[str, ast.Module]]:
        """Python files that contain a text, parsed; those that cannot be are left out."""
        for path in sorted(self.root.rglob("*.py")):
            if {*path.relative_to(self.root).parts} & (_LIBRARIES | _SKIPPED):
                continue
            try:
                text = path.read_text(encoding="utf-8")
                if word in text:
                    yield path.relative_to(self.root).as_posix(), ast.parse(text)
            except (OSError, ValueError, SyntaxError):
                continue

    def flags(self, source: str) -> tuple[str, ...]:
        """Compiler flags about code that the project's build files and modules give for a source."""
        found: dict[str, None] = {}
        above = [self.root / folder for folder in Path(source).parents]
        for folder in (*above, self.root.parent):
            for path in (folder / name for name in _FLAG_FILES):
                if path.is_file():
                    text = path.read_text(encoding="utf-8", errors="replace")
                    found |= dict.fromkeys(_FLAG.findall(text))
        for _, tree in self.python(f'"{Path(source).name}"'):
            for node in ast.walk(tree):
                if isinstance(node, ast.FunctionDef) and Path(source).name in _strings(node):
                    chosen = [n for n in ast.walk(node) if isinstance(n, ast.IfExp)]
                    unsure = {s for n in chosen for s in _strings(n)}
                    found |= {s: None for s in _strings(node) if s[:2] == "-D" and s not in unsure}
        return tuple(found)


def _strings(node: ast.AST) -> list[str]:
    constants = (n for n in ast.walk(node) if isinstance(n, ast.Constant))
    return [n.value for n in constants if isinstance(n.value, str)]
