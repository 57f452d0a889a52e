"""Transcripts in Markdown: commands and what they print, run by a real shell and compared with what the page shows."""

import re
import shlex
import subprocess
from dataclasses import dataclass
from pathlib import Path

_BLOCK = re.compile(r"^```console\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_VARIES = re.compile(r"\b(?=[0-9a-f]*\d)[0-9a-f]{12,40}\b|\d+(?:\.\d+)?(?:e-?\d+)?")
_BORDERS = re.compile(r"[┏┓┗┛┡┩┠┨┳┻╇━─┼├┤└┘┌┐┴┬╭╮╰╯]")


@dataclass(frozen=True)
class Command:
    """One command of a page, and the lines that the page shows below it."""

    line: str
    shown: tuple[str, ...]


@dataclass(frozen=True)
class Done:
    """What a command did."""

    command: Command
    exit_code: int
    printed: str


def commands(markdown: str) -> list[Command]:
    """The commands of all console blocks, in order: lines that begin with "$ "."""
    found: list[tuple[str, list[str]]] = []
    for block in _BLOCK.findall(markdown):
        assert block.startswith("$ "), f"a console block begins with a command: {block}"
        for line in block.splitlines():
            if line.startswith("$ "):
                found.append((line[2:], []))
            else:
                found[-1][1].append(line)
    return [Command(line, tuple(shown)) for line, shown in found]


def performed(listed: list[Command], place: Path, environment: dict[str, str]) -> list[Done]:
    """Runs the commands in order in one shell that begins in `place`, up to the first that fails."""
    record = place.parent / f"{place.name}.transcript"
    record.mkdir()
    script = []
    for index, command in enumerate(listed):
        out = shlex.quote(str(record / str(index)))
        script.append(
            f"{{ {command.line}\n}} > {out} 2>&1 < /dev/null; echo $? > {out}.code; [ $(cat {out}.code) = 0 ] || exit 1"
        )
    subprocess.run(
        ["bash", "--noprofile", "--norc", "-c", "\n".join(script)],
        cwd=place, env=environment, check=False,
    )  # fmt: skip
    return [
        Done(command, int((record / f"{i}.code").read_text()), (record / str(i)).read_text())
        for i, command in enumerate(listed)
        if (record / f"{i}.code").exists()
    ]


def _plain(text: str) -> str:
    return " ".join(_BORDERS.sub(" ", text).split())


def _pattern(shown: str) -> str:
    """A line of the page as a pattern: numbers and digests may differ, "..." stands for anything on the line."""
    parts = []
    for part in re.split(r"\s*\.\.\.\s*", _plain(shown)):
        exact = [re.escape(text) for text in _VARIES.split(part)]
        parts.append(r"[0-9a-f.e\-]+".join(exact))
    return ".*".join(parts)


def differences(done: Done) -> str | None:
    """The first line of the page that the command did not print there, or None.

    A line "..." stands for any number of lines. Lines that a terminal of 80 columns breaks are one line on the page:
    one line of the page may match several printed ones.
    """
    if not done.command.shown:
        return None
    printed = [line for line in map(_plain, done.printed.splitlines()) if line]
    expected = [line for line in map(str.strip, done.command.shown) if line]
    return _first_difference(expected, printed)


_JOINED = 4


def _first_difference(expected: list[str], printed: list[str]) -> str | None:
    # Positions in `printed` at which what the page has shown so far may end.
    reached = {0}
    for line in expected:
        if line == "...":
            reached = set(range(min(reached), len(printed) + 1))
            continue
        pattern = re.compile(_pattern(line))
        reached = {
            end
            for start in reached
            for end in range(start + 1, min(start + _JOINED, len(printed)) + 1)
            if pattern.fullmatch(" ".join(printed[start:end]))
        }
        if not reached:
            return line
    return (
        None if len(printed) in reached else f"(the end; it printed {printed[max(reached) :][:3]})"
    )
