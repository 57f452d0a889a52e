"""Opens a tree of sources: a directory, a Git repository, or an installed package; says what its commit does not have."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import re
import subprocess
from collections.abc import Iterable
from pathlib import Path

from astra_kernels.errors import UserError
from astra_kernels.extraction import flashinfer
from astra_kernels.extraction.project import Project, Release

_GIT_TIMEOUT_S = 30


def open_project(where: str) -> Project:
    """The sources at `where`: a directory, or the name of an installed package, which is not imported.

    Raises:
        UserError: there is neither.
    """
    path = Path(where)
    if path.is_dir():
        return _directory(path.resolve())
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
    release = Release(names[0], version, _stated_commit(found))
    licences = tuple(
        Path(str(file.locate()))
        for file in importlib.metadata.files(names[0]) or ()
        if re.match(r"(?:LICEN[SC]E|NOTICE|COPYING)", file.name) and "dist-info" in str(file)
    )
    if module != "flashinfer":
        return Project(found, release, licences=licences, prefix=f"{module}/")
    return Project(
        found,
        release,
        generated=flashinfer.generated_sources(found),
        licences=licences,
        prefix="flashinfer/",
        moved=flashinfer.MOVED,
    )


def uncommitted(project: Project, paths: Iterable[str]) -> list[str]:
    """Those of a repository's files that its commit does not have as they are.

    Args:
        project: a tree; one whose commit is unknown, or a package, has no such files.
        paths: paths in it.
    """
    asked = sorted({p for p in paths if p not in project.generated})
    if not project.repository or not asked:
        return []
    tracked = _lines(project.root, "ls-files", "-z", "--", *asked)
    changed = _lines(project.root, "diff", "--relative", "--name-only", "-z", "HEAD", "--", *asked)
    return [p for p in asked if p not in tracked or p in changed]


def _directory(root: Path) -> Project:
    top = _git(root, "rev-parse", "--show-toplevel").strip()
    commit = _git(root, "rev-parse", "--verify", "HEAD").strip()
    if not top or not commit or not _git(root, "ls-files", "-z", "--", "."):
        release = Release(root.name, _version((root,)))
        return Project(root, release, licences=_licences((root,)))
    places = tuple(p for p in (root, *root.parents) if p.is_relative_to(Path(top).resolve()))
    return Project(
        root,
        Release(places[-1].name, _version(places), commit),
        licences=_licences(places),
        prefix=_git(root, "rev-parse", "--show-prefix").strip(),
        repository=True,
    )


def _licences(places: Iterable[Path]) -> tuple[Path, ...]:
    """Licence files of the nearest directory that has any."""
    for place in places:
        found = [
            p
            for pattern in ("LICENSE*", "LICENCE*", "NOTICE*", "COPYING*")
            for p in sorted(place.glob(pattern))
            if p.is_file()
        ]
        if found:
            return tuple(found)
    return ()


def _package_root(module: str) -> Path | None:
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


def _version(places: Iterable[Path]) -> str:
    for place in places:
        path = place / "pyproject.toml"
        if path.is_file():
            text = path.read_text(errors="replace")
            found = re.search(r'^version\s*=\s*"([^"]+)"', text, re.MULTILINE)
            if found:
                return found[1]
    return ""


def _lines(root: Path, *words: str) -> set[str]:
    return set(_git(root, *words).split("\0")) - {""}


def _git(root: Path, *words: str) -> str:
    """What Git says; nothing where it is not installed, or this is no repository."""
    try:
        done = subprocess.run(
            ["git", "--literal-pathspecs", "-C", str(root), *words],
            capture_output=True,
            text=True,
            errors="replace",
            timeout=_GIT_TIMEOUT_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout if done.returncode == 0 else ""
