"""Where sources come from: a directory, or an installed package that brings them."""

from __future__ import annotations

import ast
import importlib.metadata
import importlib.util
import re
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from astra_kernels.errors import UserError

SOURCES = frozenset({".cu", ".cuh", ".h", ".hpp", ".hxx", ".cpp", ".cc", ".inl", ".inc"})
UNITS = frozenset({".cu", ".cpp", ".cc", ".cuh"})
_LIBRARIES = frozenset({"cutlass", "cccl", "cub", "thrust", "spdlog", "third_party", "3rdparty"})
_SKIPPED = frozenset({".git", "build", "node_modules", "__pycache__", "dist"})
_MOST_BYTES = 4 << 20
_FLAG = re.compile(r"""["'\s](-D[A-Z]\w+(?:=\w+)?|--?use_fast_math|--expt-[a-z-]+)(?=["'\s)])""")
_FLAG_FILES = ("setup.py", "CMakeLists.txt", "pyproject.toml", "setup.cfg")


@dataclass(frozen=True)
class Provenance:
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
    provenance: Provenance
    generated: dict[str, str] = field(default_factory=dict)
    """Text of sources that the project writes when it runs, by the path they are given here."""

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
        for name in _FLAG_FILES:
            for path in (self.root / name, self.root.parent / name):
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


def open_project(where: str) -> Project:
    """The sources at `where`: a directory, or the name of an installed package.

    Raises:
        UserError: there is neither.
    """
    path = Path(where)
    if path.is_dir():
        root = path.resolve()
        return Project(root, Provenance(root.name, _version(root), _commit(root)))
    name = where.replace("-", "_")
    module = name if name.isidentifier() else ""
    if not _package_root(module):
        module = _module_of(where)
    found = _package_root(module)
    if not found:
        raise UserError(
            f"--from {where}: no such directory, and no package of this name is installed"
        )
    names = importlib.metadata.packages_distributions().get(module, [where])
    version = importlib.metadata.version(names[0])
    provenance = Provenance(names[0], version, _stated_commit(found))
    from astra_kernels.extraction.flashinfer import generated_sources

    return Project(found, provenance, generated_sources(found) if module == "flashinfer" else {})


def _package_root(module: str) -> Path | None:
    """The directory of a package, which is not imported."""
    spec = importlib.util.find_spec(module) if module else None
    places = spec.submodule_search_locations if spec else None
    return Path(next(iter(places))) if places else None


def _module_of(distribution: str) -> str:
    by_module = importlib.metadata.packages_distributions()
    wanted = distribution.lower().replace("_", "-")
    return next(
        (
            m
            for m, names in by_module.items()
            if wanted in [n.lower().replace("_", "-") for n in names]
        ),
        "",
    )


def _stated_commit(root: Path) -> str:
    for name in ("_build_meta.py", "_version.py", "version.py"):
        path = root / name
        if path.is_file():
            found = re.search(
                r"commit\w*\s*=\s*['\"]([0-9a-f]{7,40})", path.read_text(errors="replace")
            )
            if found:
                return found[1]
    return ""


def _version(root: Path) -> str:
    for place in (root, root.parent):
        path = place / "pyproject.toml"
        if path.is_file():
            found = re.search(
                r'^version\s*=\s*"([^"]+)"', path.read_text(errors="replace"), re.MULTILINE
            )
            if found:
                return found[1]
    return ""


def _commit(root: Path) -> str:
    try:
        done = subprocess.run(
            ["git", "-C", str(root), "rev-parse", "HEAD"],
            capture_output=True,
            text=True,
            timeout=10,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout.strip() if done.returncode == 0 else ""
