"""The directories that tools may read, and nothing outside them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from astra_kernels.errors import UserError

_MOST_FILES = 10_000


@dataclass(frozen=True)
class Roots:
    """Where the user lets an agent's tools read."""

    directories: tuple[Path, ...]
    """Absolute, links followed."""

    @staticmethod
    def of(given: tuple[Path, ...]) -> Roots:
        """The roots that the command line names.

        Raises:
            UserError: one is no directory.
        """
        for directory in given:
            if not directory.is_dir():
                raise UserError(f"--root {directory}: not a directory")
        return Roots(tuple(directory.resolve() for directory in given))

    def allowed(self, named: str) -> Path:
        """The file or directory that an agent named, absolute or relative to a root.

        Raises:
            UserError: it does not exist, or lies outside every root, links followed.
        """
        if "\0" in named:
            raise UserError("a path cannot hold a zero byte")
        tried = [(root / named).resolve() for root in self.directories]
        inside = [path for path in tried if self._holds(path)]
        if not inside:
            roots = ", ".join(map(str, self.directories))
            raise UserError(f"{named}: outside the directories that may be read here: {roots}")
        found = next((path for path in inside if path.exists()), None)
        if found is None:
            raise UserError(f"{named}: no such file or directory")
        self._require_inside(found)
        return found

    def _require_inside(self, found: Path) -> None:
        """Refuse what whoever reads it would wait for, and links that lead out, which it would follow."""
        for number, path in enumerate(_files(found)):
            if number >= _MOST_FILES:
                raise UserError(f"{found}: more than {_MOST_FILES} files; name a smaller directory")
            if path.exists() and not (path.is_file() or path.is_dir()):
                raise UserError(f"{path}: neither a file nor a directory")
            if path.is_symlink() and not self._holds(path.resolve()):
                raise UserError(f"{path}: is a link out of the directories that may be read here")

    def _holds(self, path: Path) -> bool:
        return any(path.is_relative_to(root) for root in self.directories)


def _files(found: Path) -> Iterator[Path]:
    yield found
    if found.is_dir():
        yield from found.rglob("*")
