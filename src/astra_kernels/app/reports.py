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


def runs(folder: Path, *, as_json: bool) -> int:
    """List the runs in a folder, newest first; those that cannot be read are named on standard error.

    Raises:
        UserError: there is no such folder.
    """
    try:
        directories = [d for d in folder.iterdir() if (d / EVENTS).is_file()]
    except OSError as error:
        raise UserError(
            f"{folder}: cannot be read: {error.strerror or error}; give the folder that holds runs"
        ) from None
    found: list[Overview] = []
    for directory in sorted(directories):
        try:
            found.append(overview_of(directory))
        except AstraError as error:
            print(f"astra runs: {error}", file=sys.stderr)
    found.sort(key=lambda o: o.began, reverse=True)
    print(json.dumps([asdict(o) for o in found], indent=1)) if as_json else _show(folder, found)
    return 0


def _show(folder: Path, found: list[Overview]) -> None:
    console = Console(highlight=False)
    if not found:
        console.print(escape(f"{folder}: no runs yet; start one with astra optimize PROBLEM"))
        return
    columns = ("begun", "run", "device", "agents", "verdict", "gain", "tried", "min")
    table = Table(*(Column(name, overflow="fold") for name in columns))
    for row in found:
        style = {"confirmed": "green", "refuted": "red"}.get(row.verdict, "")
        words = row.began[:10], row.run, row.device, row.agents, row.verdict, row.gain
        table.add_row(
            *map(escape, words), str(row.candidates), f"{row.seconds / 60:.0f}", style=style
        )
    console.print(table)
