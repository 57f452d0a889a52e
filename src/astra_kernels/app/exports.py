"""`astra export`: write a patch for a framework, and say what is established about it."""

from __future__ import annotations

import json
import tempfile
from dataclasses import dataclass
from pathlib import Path

from astra_kernels import __version__
from astra_kernels.app.compose import build_cache
from astra_kernels.app.options import ExportOptions
from astra_kernels.app.runs import PROBLEM, read_run
from astra_kernels.exporters.export import Asked, Exported
from astra_kernels.exporters.export import export as write_export
from astra_kernels.exporters.pull_request import word_of

_OK, _NOT_PASSED = 0, 1


@dataclass(frozen=True)
class ExportRequest:
    """What the command line says."""

    run: Path
    tree: Path
    out: Path | None
    options: ExportOptions


def export(request: ExportRequest, *, as_json: bool) -> int:
    """Export a run; 1 where something about the patch is known to fail."""
    run, options = read_run(request.run, words=False), request.options
    with tempfile.TemporaryDirectory(prefix="astra-builds-") as builds:
        made = write_export(
            Asked(
                run=request.run,
                tree=request.tree,
                out=request.out or request.run / "export",
                cache=build_cache() or Path(builds),
                version=__version__,
                modelled=options.modelled,
                moved=options.moved,
                test=options.test,
                test_seconds=options.test_seconds,
                trace=options.trace,
                engagement=options.engagement,
            ),
            run.problem,
            request.run / PROBLEM,
            run.history,
        )
    print(_json(made)) if as_json else _show(made)
    return _NOT_PASSED if any(p.failed for p in made.proofs) else _OK


def _json(made: Exported) -> str:
    content = {
        "directory": str(made.directory),
        "files": list(made.files),
        "modelled": made.modelled,
        "regions": list(made.regions),
        "proofs": [{"name": p.name, "verdict": word_of(p), "said": p.said} for p in made.proofs],
    }
    return json.dumps(content, indent=2)


def _show(made: Exported) -> None:
    kind = "modelled, nothing was measured" if made.modelled else "measured"
    print(f"{made.directory}: {', '.join(made.files)}")
    print(f"  the new kernel is used at ({kind}):")
    for region in made.regions:
        print(f"    {region}")
    for proof in made.proofs:
        print(f"  {proof.name}: {word_of(proof)}: {proof.said}")
