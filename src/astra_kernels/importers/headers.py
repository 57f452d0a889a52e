"""Headers from an installed Python package, pruned to what the sources include.

A candidate must be self-contained: the machine that builds it need not have the package, and a
coding agent may edit what it sees.
"""

from __future__ import annotations

import importlib.metadata
import re
from pathlib import Path, PurePosixPath

from astra_kernels.errors import SetupError
from astra_kernels.records.solution import HeaderPackage

_INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*[<"]([^">]+)[">]', re.MULTILINE)


def include_closure(sources: dict[str, str], packages: tuple[HeaderPackage, ...]) -> dict[str, str]:
    """Package headers that `sources` include, directly or not, by their path below the package's include directory.

    Every `#include` counts, whatever `#if` it stands under: a header too many does no harm, one too few breaks the build.

    Raises:
        SetupError: when a package is not installed, or not in the version that the problem names.
    """
    roots = [_include_root(package) for package in packages]
    found: dict[str, str] = {}
    waiting = list(sources.items())
    while waiting:
        path, text = waiting.pop()
        for name in _INCLUDE.findall(text):
            for relative in _spellings(path, name):
                if relative in sources or relative in found:
                    break
                content = _read_below(roots, relative)
                if content is not None:
                    found[relative] = content
                    waiting.append((relative, content))
                    break
    return found


def _spellings(including: str, name: str) -> tuple[str, ...]:
    """Paths that `#include` of `name` in file `including` may mean: beside that file, then below an include directory."""
    beside: list[str] = []
    for part in (*PurePosixPath(including).parent.parts, *PurePosixPath(name).parts):
        if part == ".." and beside:
            beside.pop()
        elif part not in (".", ".."):
            beside.append(part)
    return ("/".join(beside), name)


def _read_below(roots: list[Path], relative: str) -> str | None:
    if ".." in PurePosixPath(relative).parts or PurePosixPath(relative).is_absolute():
        return None
    for root in roots:
        path = root / relative
        if path.is_file():
            return path.read_bytes().decode(errors="replace")
    return None


def _include_root(package: HeaderPackage) -> Path:
    advice = f"pip install '{package.distribution}=={package.version}'"
    try:
        distribution = importlib.metadata.distribution(package.distribution)
    except importlib.metadata.PackageNotFoundError:
        raise SetupError(
            f"the baseline includes headers of {package.distribution}, which is not installed: {advice}"
        ) from None
    if distribution.version != package.version:
        raise SetupError(
            f"the baseline is written for {package.distribution} {package.version}, "
            f"but {distribution.version} is installed: {advice}"
        )
    return Path(str(distribution.locate_file(package.root)))
