"""Whether a tree still has the files that a problem was taken out of."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from dataclasses import dataclass

from astra_kernels.errors import ExportRefused
from astra_kernels.exporters.git import Tree, sha256
from astra_kernels.records.problem import Problem
from astra_kernels.records.provenance import OriginalFile, Provenance

_SOURCES = (".cu", ".cuh", ".cpp", ".cc", ".h", ".hpp", ".inl")


@dataclass(frozen=True)
class Originals:
    """Where the originals lie in the tree now."""

    entry: str
    """The operator's file."""
    places: Mapping[str, str]
    """Path in the tree by path in the problem; files that the tree does not have are left out."""
    missing: tuple[str, ...]
    """Files that the tree does not have, and that the change does not touch."""


def find_originals(
    tree: Tree, problem: Problem, changed: tuple[str, ...], *, moved: bool
) -> Originals:
    """The originals of a problem in a tree.

    Args:
        tree: the framework's tree.
        problem: what was taken out.
        changed: files of the problem that a candidate changed.
        moved: accept files that lie elsewhere, with the same content.

    Raises:
        ExportRefused: a file was changed, has moved or is missing, or the tree has nothing of the problem.
    """
    provenance = problem.provenance
    if provenance is None:
        raise ExportRefused(
            "the run's problem does not say where it is from (no provenance.json): make it with astra extract, and "
            "run the optimization on that"
        )
    if "<" in provenance.entry.name:
        raise ExportRefused(
            f"{provenance.entry.name}: an instance of a template, and a guard in the template would stand in all of them; "
            "specialise it by hand"
        )
    known = {f.path_in_problem: f for f in provenance.files}
    if unknown := [path for path in changed if path not in known]:
        raise ExportRefused(
            f"{unknown[0]}: changed or added by the candidate, but no file of {provenance.framework} is known as its "
            "original; only what the operator's own files hold can be exported"
        )
    if not provenance.entry.file.endswith(_SOURCES):
        raise ExportRefused(
            f"{provenance.entry.file}: writes the operator's source when it runs, so there is no file that a guard could "
            "be put into; change what it writes by hand"
        )
    entry = known.get(problem.spec.entry_file)
    if entry is None or entry.path_in_tree != provenance.entry.file:
        raise ExportRefused(
            f"{provenance.entry.file}: not the file that the problem's entry point is from; extract the operator again"
        )
    return _Looking(tree, problem, provenance, moved).all(
        (*dict.fromkeys((*changed, entry.path_in_problem)),)
    )


class _Looking:
    def __init__(self, tree: Tree, problem: Problem, provenance: Provenance, moved: bool) -> None:
        self._tree, self._problem, self._provenance = tree, problem, provenance
        self._moved = moved
        self._by_name: dict[str, list[str]] = {}
        for path in tree.tracked():
            self._by_name.setdefault(path.rpartition("/")[2], []).append(path)

    def all(self, needed: tuple[str, ...]) -> Originals:
        self._require_related()
        places: dict[str, str] = {}
        missing: list[str] = []
        for file in self._provenance.files:
            place = self._place(file, needed=file.path_in_problem in needed)
            if place is None:
                missing.append(file.path_in_tree)
            else:
                places[file.path_in_problem] = place
        self._require_clean(places)
        return Originals(places[self._problem.spec.entry_file], places, tuple(missing))

    def _require_related(self) -> None:
        names = {f.path_in_tree.rpartition("/")[2] for f in self._provenance.files}
        if not names & self._by_name.keys():
            raise ExportRefused(
                f"{self._tree.root}: has no file of the name of any that {self._provenance.symbol} was taken out of "
                f"({', '.join(sorted(names)[:4])}): this is another project's tree"
            )

    def _place(self, file: OriginalFile, *, needed: bool) -> str | None:
        """Where a file lies; None where it is not in the tree and not needed."""
        content = self._tree.bytes_of(file.path_in_tree)
        if content is not None and sha256(content) == file.sha256:
            return file.path_in_tree
        elsewhere = self._elsewhere(file)
        if elsewhere and (self._moved or (not needed and content is None)):
            return elsewhere[0]
        if elsewhere:
            raise ExportRefused(
                f"{file.path_in_tree}: lies at {', '.join(elsewhere)} in this tree, with the same content; give --moved "
                "to patch it there"
            )
        if content is not None:
            raise ExportRefused(
                f"{file.path_in_tree}: was changed since the operator was taken out{self._stat(file, content)}; extract "
                "it again, and confirm the change on that"
            )
        if needed:
            raise ExportRefused(
                f"{file.path_in_tree}: not in this tree, under this name or another; it may be written by the project "
                "when it runs, or belong to another version "
                f"({self._provenance.version or self._provenance.commit or 'unknown'} was taken)"
            )
        return None

    def _elsewhere(self, file: OriginalFile) -> list[str]:
        named = self._by_name.get(file.path_in_tree.rpartition("/")[2], [])
        found = ((p, self._tree.bytes_of(p)) for p in named if p != file.path_in_tree)
        return [p for p, content in found if content is not None and sha256(content) == file.sha256]

    def _stat(self, file: OriginalFile, content: bytes) -> str:
        said = self._tree.stat_since(self._provenance.commit, file.path_in_tree)
        if not said and file.whole:
            before = self._problem.baseline.sources[file.path_in_problem].splitlines()
            after = content.decode(errors="replace").splitlines()
            lines = list(difflib.unified_diff(before, after, lineterm=""))[2:]
            added, lost = (sum(x.startswith(sign) for x in lines) for sign in "+-")
            said = f"+{added} -{lost} lines"
        return f" ({said})" if said else ""

    def _require_clean(self, places: Mapping[str, str]) -> None:
        known = {path for paths in self._by_name.values() for path in paths}
        paths = tuple(sorted(set(places.values())))
        dirty = [*self._tree.changed(paths), *(p for p in paths if p not in known)]
        if dirty:
            raise ExportRefused(
                f"{', '.join(sorted(set(dirty)))}: not as committed in {self._tree.root}; commit or take back these changes first"
            )
