"""`astra export`: from a finished run and a framework's tree to a patch, the words for it, and the evidence."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from astra_kernels.errors import ExportRefused, NothingToExport
from astra_kernels.exporters.borders import border_workloads
from astra_kernels.exporters.change import (
    PATCH,
    Change,
    apply,
    changed_files,
    diff_of,
    make_change,
    write_into,
)
from astra_kernels.exporters.evidence import evidence
from astra_kernels.exporters.files import whole_or_not_at_all
from astra_kernels.exporters.git import Tree, text_in
from astra_kernels.exporters.namespaced import moved_files
from astra_kernels.exporters.new_file import Origin
from astra_kernels.exporters.originals import Originals, find_originals
from astra_kernels.exporters.own_test import gpu_engagement, run_test
from astra_kernels.exporters.proof import CAPABILITY, Patched, Proved, Verified, verify_patched
from astra_kernels.exporters.pull_request import Told, pull_request
from astra_kernels.exporters.python_call import python_call
from astra_kernels.exporters.scripts import ENGAGEMENT, engagement_script, tree_files, unable
from astra_kernels.exporters.trace import Share, share_of
from astra_kernels.exporters.winner import Winner, winner_of
from astra_kernels.extraction.opening import open_project
from astra_kernels.extraction.syntax import functions
from astra_kernels.records.history import History
from astra_kernels.records.problem import Problem


@dataclass(frozen=True)
class Asked:
    """What is exported, and how."""

    run: Path
    tree: Path
    out: Path
    cache: Path
    """Where builds are kept."""
    version: str
    """Of Astra."""
    modelled: bool = False
    moved: bool = False
    test: str | None = None
    """A command line that runs the framework's own test."""
    test_seconds: float = 1800.0
    trace: Path | None = None
    engagement: Path | None = None
    """The report of an earlier export's `check_engagement.py`."""


@dataclass(frozen=True)
class Exported:
    """What was written."""

    directory: Path
    files: tuple[str, ...]
    regions: tuple[str, ...]
    proofs: tuple[Proved, ...]
    modelled: bool


def export(asked: Asked, problem: Problem, data_root: Path, history: History) -> Exported:
    """Writes the export's directory; the tree is only read.

    Args:
        asked: what is exported.
        problem: of the run.
        data_root: where its files lie.
        history: what the run's log tells.

    Raises:
        NothingToExport: the run has no confirmed win, or the patched operator fails. Nothing is written.
        ExportRefused: the tree is not what the operator was taken out of, or the change cannot be a patch of it.
        SetupError: git or a compiler is missing.
    """
    winner = winner_of(history, modelled=asked.modelled)
    tree = Tree.open(asked.tree)
    _require_free(asked.out, tree)
    originals = find_originals(tree, problem, changed_files(problem, winner), moved=asked.moved)
    with (
        tempfile.TemporaryDirectory(prefix="astra-export-") as name,
        tree.copy(Path(name) / tree.root.name) as copy,
    ):
        return _Exporting(asked, problem, winner, tree, originals).all(copy, data_root)


def _require_free(out: Path, tree: Tree) -> None:
    if out.exists():
        raise ExportRefused(f"{out}: exists; give another directory with --out")
    if out.resolve().is_relative_to(tree.root):
        raise ExportRefused(
            f"{out}: lies in {tree.root}, which is not changed; give --out elsewhere"
        )


class _Exporting:
    def __init__(
        self, asked: Asked, problem: Problem, winner: Winner, tree: Tree, originals: Originals
    ) -> None:
        self._asked, self._problem, self._winner = asked, problem, winner
        self._tree, self._originals = tree, originals

    def all(self, copy: Path, data_root: Path) -> Exported:
        text = text_in(copy, self._originals.entry)
        change = make_change(self._problem, self._winner, self._originals, text, self._origin())
        self._require_new(copy, change.new_path)
        project = open_project(str(copy))
        call = python_call(project, self._problem)
        lacking = unable(self._problem, call)
        added = {} if lacking or call is None else dict(tree_files(self._problem, change, call))
        for path in added:
            self._require_new(copy, path)
        share, seen = self._share(), gpu_engagement(self._asked.engagement, change.namespace)
        patch = diff_of(copy, {**change.files, **added})
        apply(copy, patch)
        verified = self._verify(copy, change, data_root)
        proofs = (
            Proved("applies", True, f"git apply --check, to {self._tree.commit[:12]}"),
            verified.verified,
            verified.engagement,
            run_test(self._asked.test, copy, self._asked.test_seconds),
            seen,
        )
        told = Told(
            problem=self._problem,
            winner=self._winner,
            change=change,
            proofs=proofs,
            added=tuple(added),
            no_scripts=lacking,
            missing=self._originals.missing,
            share=share,
            commands=self._commands(change),
            caveats=tuple(self._caveats(text, project.flags(self._originals.entry))),
        )
        files = {
            PATCH: patch,
            "PULL_REQUEST.md": pull_request(told),
            "evidence.json": evidence(told, verified.engaged, patch, self._facts()),
            **{
                f"files/{p}": t
                for p, t in {change.new_path: change.files[change.new_path], **added}.items()
            },
        }
        if call is not None and not lacking:
            files[ENGAGEMENT] = engagement_script(self._problem, change, call)
        _write(self._asked.out, files)
        said = tuple(str(r) for r in change.regions)
        return Exported(self._asked.out, tuple(files), said, proofs, self._winner.modelled)

    def _caveats(self, text: str, flags: tuple[str, ...]) -> Iterator[str]:
        """What of the tree's builds nobody tried: of its operator's file, and with which compiler flags."""
        judged = self._problem.spec.compile_options.cuda_cflags
        if differ := sorted({*flags} ^ {*judged}):
            yield (
                f"The tree's compiler flags: it gives {' '.join(flags) or 'none'}, and the kernel was judged with "
                f"{' '.join(judged) or 'none'} ({', '.join(differ)} differ)"
            )
        if re.search(r"\bUSE_ROCM\b|\b__HIP", text):
            yield (
                f"Builds of `{self._originals.entry}` for AMD GPUs: the new file is CUDA code, and neither its include nor the "
                "guard asks for CUDA; put both between `#ifndef USE_ROCM` and `#endif`"
            )

    def _require_new(self, copy: Path, path: str) -> None:
        if (copy / path).exists():
            raise ExportRefused(
                f"{path}: is in {self._tree.root} already; an earlier export is applied there"
            )

    def _verify(self, copy: Path, change: Change, data_root: Path) -> Verified:
        own = tuple(w.model_copy(update={"timed": False}) for w in self._problem.workloads)
        workloads = (*own, *border_workloads(self._problem, change.regions))
        capability = change.guard.capability
        patched = Patched(
            copy, change.operator_file, change.line, change.namespace, change.regions, capability
        )
        verified = verify_patched(patched, self._problem, data_root, workloads, self._asked.cache)
        failed = next((p for p in (verified.verified, verified.engagement) if p.failed), None)
        if failed is not None:
            raise NothingToExport(
                f"the patched operator is not what the run confirmed ({failed.name}): {failed.said}; nothing is written"
            )
        if capability != CAPABILITY:
            said = (
                f"the simulated device has compute capability {CAPABILITY}, the guard asks for {capability}: "
                "only the old kernels ran"
            )
            return Verified(verified.verified, Proved("engagement", False, said), verified.engaged)
        return verified

    def _share(self) -> Share | None:
        if self._asked.trace is None:
            return None
        entry = self._problem.spec.entry_file
        sources = {**self._problem.baseline.sources}
        named = {f.name for f in functions(sources[entry], entry) if f.kernel}
        named = named or {f.name for p, t in sources.items() for f in functions(t, p) if f.kernel}
        return share_of(self._asked.trace, tuple(sorted(named)))

    def _origin(self) -> Origin:
        winner, provenance = self._winner, self._problem.provenance
        assert provenance is not None, "find_originals refuses such a problem"
        how = f"measured on {winner.gpu}"
        if winner.modelled:
            how = f"times are modelled for {winner.gpu}, nothing was measured"
        moved = moved_files(
            winner.candidate.sources,
            changed_files(self._problem, winner),
            self._problem.spec.entry_file,
        )
        commit = f", commit {provenance.commit}" if provenance.commit else ""
        return Origin(
            (
                f"A faster {provenance.symbol} for the calls that `confirmed` below describes; every other call runs the",
                f"code of {self._originals.entry}.",
                "",
                f"Made by Astra {self._asked.version}, run {self._run}, candidate {winner.candidate.id};",
                f"{how}; {winner.remeasured.at[:10]}.",
                f"Derived from {provenance.framework} {provenance.version or ''}".rstrip()
                + f"{commit}:",
                *(f"  {self._originals.places[path]}" for path in moved),
            )
        )

    @property
    def _run(self) -> str:
        return self._asked.run.resolve().name

    def _commands(self, change: Change) -> tuple[str, ...]:
        moved = " --moved" if self._asked.moved else ""
        modelled = " --modelled" if self._winner.modelled else ""
        confirm = f"astra confirm {self._run}/problem {self._run}/best"
        return (
            f"git apply {PATCH}",
            f"astra show {self._run}",
            *((confirm,) if self._winner.everywhere else ()),
            f"astra export {self._run} --to TREE{modelled}{moved}",
        )

    def _facts(self) -> dict[str, str]:
        return {
            "run": self._run,
            "astra_version": self._asked.version,
            "tree_commit": self._tree.commit,
        }


def _write(out: Path, files: dict[str, str]) -> None:
    """All of it, or nothing."""
    try:
        with whole_or_not_at_all(out) as staging:
            write_into(staging, files)
    except OSError as error:
        raise ExportRefused(f"{out}: cannot be written: {error.strerror or error}") from None
