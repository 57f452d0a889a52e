"""Verbs that read what is on record."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from astra_kernels.app.options import (
    EXIT_OK,
    JsonOption,
)


def show(run: Path, *, json: JsonOption = False) -> int:
    """Show what a run tried, and what came of it.

    Args:
        run: Run directory.
    """
    from astra_kernels.app import commands

    return commands.show(run, as_json=json)


def report(
    run: Path,
    *,
    out: Path | None = None,
    markdown: Annotated[bool, Parameter(negative="")] = False,
) -> int:
    """Write what a run established as one page of HTML: `astra report runs/NAME`.

    The page opens from disk, fetches nothing and prints. A run that has not ended is reported as far as it is.

    Args:
        run: Run directory.
        out: File to write; default: RUN/report.html, or with --markdown standard output.
        markdown: Write Markdown instead, for a pull request.
    """
    from astra_kernels.app import reports

    return reports.report(run, out, as_markdown=markdown)


def runs(folder: Path = Path("runs"), *, last: int | None = None, json: JsonOption = False) -> int:
    """List runs, newest first: problem, device, verdict, gain, cost.

    Args:
        folder: Directory that holds run directories.
        last: How many of the newest; default: 50, with --json all.
    """
    from astra_kernels.app import reports

    return reports.runs(folder, last, as_json=json)


def replay(run: Path) -> int:
    """Run a recorded run again from its own record: no network, no device. Ends with 1 where it decides otherwise.

    What models were asked and answered, and what every candidate got, is read from the record. A prompt that has
    changed since is a divergence: it is shown, not answered from an old reply.

    Args:
        run: Run directory.
    """
    from astra_kernels.app import commands

    return commands.replay_run(run)


def schema(
    record: Annotated[str, Parameter(help="definition, workload, solution, provenance or event.")],
) -> int:
    """Print the JSON Schema of a record."""
    from astra_kernels.app import schemas

    print(schemas.schema_text(record))
    return EXIT_OK
