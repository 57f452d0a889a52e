"""A framework's git tree, which is only read, and copies of it, which are written to."""

from __future__ import annotations

import hashlib
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from astra_kernels.errors import ExportRefused, SetupError

_TIMEOUT_S = 300
_PLAIN = ("-c", "core.autocrlf=false", "-c", "core.quotePath=false", "-c", "core.hooksPath=/dev/null",
          "-c", "diff.noprefix=false", "-c", "diff.mnemonicPrefix=false", "-c", "color.ui=never",
          "-c", "core.fsmonitor=false")  # fmt: skip
"""The user's settings change nothing about a patch, and run nothing."""


@dataclass(frozen=True)
class Tree:
    """A git repository with its working tree."""

    root: Path
    """Its top; paths are relative to it."""
    commit: str

    @staticmethod
    def open(root: Path) -> Tree:
        """The repository that `root` is in.

        Raises:
            ExportRefused: it is no git repository, or has no commit.
            SetupError: git is not installed.
        """
        if not root.is_dir():
            raise ExportRefused(f"--to {root}: no such directory")
        if git(root, "rev-parse", "--is-inside-work-tree", check=False).strip() != "true":
            raise ExportRefused(
                f"--to {root}: not a git repository; a patch needs one (git init, git add, git commit)"
            )
        commit = git(root, "rev-parse", "--verify", "--quiet", "HEAD", check=False).strip()
        if not commit:
            raise ExportRefused(f"--to {root}: the repository has no commit yet")
        return Tree(Path(git(root, "rev-parse", "--show-toplevel").strip()).resolve(), commit)

    def changed(self, paths: tuple[str, ...]) -> tuple[str, ...]:
        """Those of `paths` that differ from the commit, in the index or the working tree; untracked ones too."""
        said = git(self.root, "status", "--porcelain", "-z", "--untracked-files=all", "--", *paths)
        return tuple(sorted(line[3:] for line in said.split("\0") if len(line) > 3))

    def tracked(self) -> tuple[str, ...]:
        """Paths of all files that belong to the commit's index, below the root."""
        return tuple(p for p in git(self.root, "ls-files", "-z").split("\0") if p)

    def bytes_of(self, path: str) -> bytes | None:
        """A file's content; None where there is none."""
        target = self.root / path
        return target.read_bytes() if target.is_file() else None

    def stat_since(self, commit: str | None, path: str) -> str:
        """What changed in a file since a commit, in a line; "" where the repository does not know the commit."""
        if not commit:
            return ""
        said = git(self.root, "diff", "--numstat", commit, "--", path, check=False).split()
        return f"+{said[0]} -{said[1]} lines" if len(said) >= 2 else ""

    @contextmanager
    def copy(self, directory: Path) -> Iterator[Path]:
        """A clone of the commit in `directory`, which is removed afterwards."""
        where = (str(self.root), str(directory))
        git(directory.parent, "clone", "--quiet", "--shared", "--template=", *where)
        try:
            git(directory, "checkout", "--quiet", "--detach", self.commit)
            yield directory
        finally:
            shutil.rmtree(directory, ignore_errors=True)


def sha256(content: bytes) -> str:
    """As provenance has it: of the text, whatever bytes are no text."""
    return hashlib.sha256(content.decode(errors="replace").encode()).hexdigest()


def git(directory: Path, *words: str, check: bool = True) -> str:
    """What git prints.

    Raises:
        ExportRefused: it fails and `check` is set; the message is git's own.
        SetupError: it is not installed.
    """
    try:
        done = subprocess.run(
            ["git", "--no-optional-locks", *_PLAIN, *words],
            cwd=directory,
            capture_output=True,
            timeout=_TIMEOUT_S,
            check=False,
        )
    except FileNotFoundError:
        raise SetupError("git is not installed, and a patch needs it") from None
    except subprocess.TimeoutExpired:
        raise ExportRefused(
            f"git {words[0]} took more than {_TIMEOUT_S} s in {directory}"
        ) from None
    if done.returncode != 0 and check:
        said = done.stderr.decode(errors="replace").strip() or "no message"
        raise ExportRefused(f"git {words[0]} failed in {directory}: {said}")
    return done.stdout.decode(errors="surrogateescape")


def text_in(root: Path, path: str) -> str:
    """A text file of a copy, line ends as they are.

    Raises:
        ExportRefused: it is not UTF-8.
    """
    try:
        return (root / path).read_bytes().decode()
    except UnicodeDecodeError:
        raise ExportRefused(f"{path}: not UTF-8 text") from None
