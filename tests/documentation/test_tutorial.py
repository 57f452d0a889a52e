"""The tutorial is run as it stands: every command, in order, in one shell, and it prints what the page shows."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import astra_kernels
from tests.documentation.transcripts import Command, Done, commands, differences, performed

INSTALL = "scripts/setup --run-only"


@pytest.fixture(scope="module")
def page(repository):
    return (repository / "docs" / "tutorial.md").read_text()


def _installed(checkout: Path) -> None:
    """What the page's first block leaves behind: `.venv/bin/astra`; here it runs this Python and these sources."""
    script = checkout / ".venv" / "bin" / "astra"
    script.parent.mkdir(parents=True)
    sources = Path(astra_kernels.__file__).parents[1]
    script.write_text(
        f'#!/bin/sh\nPYTHONPATH={sources} exec {sys.executable} -m astra_kernels "$@"\n'
    )
    script.chmod(0o755)


def _environment(home: Path, cache: str | None) -> dict[str, str]:
    """A newcomer's: none of this process's settings but where the system's programs are."""
    home.mkdir()
    kept = {"HOME": str(home), "PATH": os.environ["PATH"], "LANG": "C.UTF-8"}
    return kept | ({"XDG_CACHE_HOME": cache} if cache else {})


def _told(done: list[Done], listed: list[Command]) -> None:
    for one in done:
        assert one.exit_code == 0, f"$ {one.command.line}\n{one.printed}"
        assert "Traceback" not in one.printed, one.printed
        missing = differences(one)
        assert missing is None, (
            f"$ {one.command.line}\nnot printed: {missing}\nprinted:\n{one.printed}"
        )
    assert len(done) == len(listed)


def test_every_command_runs_and_prints_what_the_page_shows(page, repository, tmp_path):
    """All but the installation; builds of the simulator's executor are shared with other tests."""
    checkout = tmp_path / "astra"
    shutil.copytree(repository / "docs" / "tutorial", checkout / "docs" / "tutorial")
    _installed(checkout)
    listed = commands(page)
    assert listed[0].line == INSTALL
    cache = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    done = performed(listed[1:], checkout, _environment(tmp_path / "home", cache))
    _told(done, listed[1:])


@pytest.mark.full
def test_it_holds_in_a_fresh_clone_with_nothing_installed_or_cached(page, repository, tmp_path):
    checkout = tmp_path / "astra"
    subprocess.run(["git", "clone", "--quiet", repository, checkout], check=True)
    listed = commands(page)
    _told(performed(listed, checkout, _environment(tmp_path / "home", None)), listed)


def test_files_that_the_page_shows_are_those_in_the_repository(page, repository):
    folder = repository / "docs" / "tutorial"
    blocks = re.findall(r"^```(cuda|json|python)\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    files = [path.read_text() for path in folder.rglob("*") if path.is_file()]
    assert len(blocks) == 4
    for _, text in blocks:
        assert any(text in file for file in files), text


def test_a_page_that_shows_something_else_is_found():
    """The comparison of this test can fail."""
    shown = ("run: runs/first", "... passed, modelled gain 1.000", "...", "best: 0123456789ab")
    good = "run: runs/first\n  2.4 s  baseline  passed, modelled\n gain 1.02\nmore\nbest: ffff456789ab\n"
    said = Done(Command("astra", shown), 0, good)
    assert differences(said) is None
    for wrong in ("run: runs/other", "passed, modelled gain", "best: "):
        assert differences(Done(Command("astra", shown), 0, good.replace(wrong[:6], "no"))), wrong
    assert differences(Done(Command("astra", shown), 0, good + "more\n"))
