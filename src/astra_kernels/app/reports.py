"""`astra report` and `astra runs`: runs read back, one in full or all in a line each."""

from __future__ import annotations

import json
import sys
from dataclasses import asdict
from pathlib import Path

from rich.console import Console
from rich.markup import escape
from rich.table import Column, Table

from astra_kernels.app.overview import Overview, overview_of
from astra_kernels.app.runs import read_run
from astra_kernels.errors import AstraError, RunError, UserError
from astra_kernels.reporting.facts import report_of
from astra_kernels.reporting.page import html, markdown
from astra_kernels.store import EVENTS

REPORT = "report.html"


def report(directory: Path, out: Path | None, *, as_markdown: bool) -> int:
    """Write the report of a run.

    Raises:
        RunError: it is no run, or the report cannot be written.
    """
    run = read_run(directory, words=False)
    facts = report_of(directory.resolve().name, run.problem, run.history)
    text = markdown(facts) if as_markdown else html(facts)
    if as_markdown and out is None:
        print(text, end="")
        return 0
    print(write_page(text, out or directory / REPORT))
    return 0


def write_page(text: str, target: Path) -> Path:
    """Write a report, whole or not at all; returns its path.

    Raises:
        RunError: it cannot be written.
    """
    partial = target.with_name(f".{target.name}.partial")
    try:
        partial.write_text(text, encoding="utf-8")
        partial.replace(target)
    except OSError as error:
        partial.unlink(missing_ok=True)
        raise RunError(
            f"{target}: cannot be written: {error.strerror or error}; choose another --out"
        ) from None
    return target


def runs(folder: Path, last: int | None, *, as_json: bool) -> int:
    """List the runs in a folder, newest first; those that cannot be read are named on standard error.

    Args:
        folder: where they are.
        last: how many; None for all, or as many as a reader looks at.
        as_json: for a program.

    Raises:
        UserError: there is no such folder, or `last` is not above 0.
    """
    if last is not None and last < 1:
        raise UserError(f"--last: give a number above 0, not {last}")
    try:
        directories = [d for d in folder.iterdir() if (d / EVENTS).is_file()]
    except OSError as error:
        raise UserError(
            f"{folder}: cannot be read: {error.strerror or error}; give the folder that holds runs"
        ) from None
    found: list[Overview] = []
    damaged: list[str] = []
    for directory in sorted(directories):
        try:
            found.append(overview_of(directory))
        except AstraError as error:
            damaged.append(str(error))
    for message in damaged[:_FEW]:
        print(f"astra runs: {message}", file=sys.stderr)
    if len(damaged) > _FEW:
        print(f"astra runs: {len(damaged) - _FEW} more cannot be read", file=sys.stderr)
    found.sort(key=lambda o: o.began, reverse=True)
    if as_json:
        print(json.dumps([asdict(o) for o in found[:last]], indent=1))
    else:
        _show(folder, found, last or _SHOWN)
    return 0


_FEW, _SHOWN = 5, 50


def _show(folder: Path, found: list[Overview], most: int) -> None:
    console = Console(highlight=False)
    if not found:
        console.print(escape(f"{folder}: no runs yet; start one with astra optimize PROBLEM"))
        return
    wanted = [name for name, least in _COLUMNS.items() if console.width >= least]
    table = Table(*(Column(name, overflow="fold", no_wrap=name == "begun") for name in wanted))
    for row in found[:most]:
        style = {"confirmed": "green", "refuted": "red"}.get(row.verdict, "")
        cells = _cells(row)
        table.add_row(*(escape(cells[name]) for name in wanted), style=style)
    console.print(table)
    if len(found) > most:
        console.print(f"{len(found) - most} older ones; --last {len(found)} shows all.")
    if len(wanted) < len(_COLUMNS):
        console.print(escape(f"Wider terminals show {_missing(wanted)} too; --json has all."))


_COLUMNS = {
    "begun": 60,
    "run": 0,
    "device": 100,
    "agents": 110,
    "verdict": 0,
    "gain": 0,
    "tried": 70,
    "min": 110,
}
"""The least width of a terminal that shows them."""


def _missing(wanted: list[str]) -> str:
    return ", ".join(name for name in _COLUMNS if name not in wanted)


def _cells(row: Overview) -> dict[str, str]:
    return {
        "begun": row.began[:10],
        "run": row.run,
        "device": row.device,
        "agents": row.agents,
        "verdict": row.verdict,
        "gain": row.gain,
        "tried": str(row.candidates),
        "min": f"{row.seconds / 60:.0f}",
    }
