"""`astra export`: write a patch for a framework and say what is established about it, or a dataset for others to judge."""

from __future__ import annotations

import json
import tempfile
from dataclasses import dataclass
from pathlib import Path

from astra_kernels import __version__
from astra_kernels.app.compose import build_cache
from astra_kernels.app.options import ExportFormat, ExportOptions
from astra_kernels.app.runs import PROBLEM, read_run
from astra_kernels.errors import UserError
from astra_kernels.exporters.export import Asked, Exported
from astra_kernels.exporters.export import export as write_export
from astra_kernels.exporters.flashinfer_bench.dataset import write_flashinfer_bench
from astra_kernels.exporters.pull_request import word_of

_OK, _NOT_PASSED = 0, 1


@dataclass(frozen=True)
class ExportRequest:
    """What the command line says."""

    run: Path
    tree: Path | None
    out: Path | None
    options: ExportOptions
    form: ExportFormat = "patch"


def export(request: ExportRequest, *, as_json: bool) -> int:
    """Export a run; 1 where something about the patch is known to fail.

    Raises:
        UserError: a patch without a tree, or a dataset with one.
    """
    if request.form == "flashinfer-bench":
        return _dataset(request, as_json=as_json)
    if request.tree is None:
        raise UserError("--to: give the framework's git tree, or --format flashinfer-bench")
    made = _patch(request.run, request.tree, request.out, request.options)
    print(_json(made) if as_json else told(made))
    return _NOT_PASSED if any(p.failed for p in made.proofs) else _OK


def patch_in_words(run: Path, tree: Path) -> str:
    """Makes a run's winner a patch for a tree, in RUN/export; what there is to say of it."""
    return told(_patch(run, tree, None, ExportOptions()))


def _patch(directory: Path, tree: Path, out: Path | None, options: ExportOptions) -> Exported:
    run = read_run(directory, words=False)
    with tempfile.TemporaryDirectory(prefix="astra-builds-") as builds:
        asked = Asked(
            run=directory,
            tree=tree,
            out=out or directory / "export",
            cache=build_cache() or Path(builds),
            version=__version__,
            modelled=options.modelled,
            moved=options.moved,
            test=options.test,
            test_seconds=options.test_seconds,
            trace=options.trace,
            engagement=options.engagement,
        )
        return write_export(asked, run.problem, directory / PROBLEM, run.history)


def _dataset(request: ExportRequest, *, as_json: bool) -> int:
    if request.tree is not None or request.options != ExportOptions():
        raise UserError("--format flashinfer-bench takes --out and --json only")
    run = read_run(request.run, words=False)
    out = request.out or request.run / "flashinfer-bench"
    made = write_flashinfer_bench(run.problem, run.history, out, request.run / PROBLEM)
    if as_json:
        content = {
            "directory": str(out),
            "files": [str(file) for file in made.files],
            "traces": made.traces,
            "untimed": made.untimed,
            "notes": list(made.notes),
        }
        print(json.dumps(content, indent=2))
        return _OK
    print(f"{out}: {made.traces} traces, {made.untimed} without a measured time beside them")
    for note in made.notes:
        print(f"  {note}")
    return _OK


def _json(made: Exported) -> str:
    content = {
        "directory": str(made.directory),
        "files": list(made.files),
        "modelled": made.modelled,
        "regions": list(made.regions),
        "proofs": [{"name": p.name, "verdict": word_of(p), "said": p.said} for p in made.proofs],
    }
    return json.dumps(content, indent=2)


def told(made: Exported) -> str:
    """What was written and what is established about it, line by line."""
    kind = "modelled, nothing was measured" if made.modelled else "measured"
    lines = [f"{made.directory}: {', '.join(made.files)}", f"  the new kernel is used at ({kind}):"]
    lines += [f"    {region}" for region in made.regions]
    lines += [f"  {p.name}: {word_of(p)}: {p.said}" for p in made.proofs]
    return "\n".join(lines)
