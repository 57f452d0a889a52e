"""A patched tree judged on a simulated device, by what extraction and verification do with any operator."""

from __future__ import annotations

import shutil
import tempfile
from dataclasses import dataclass
from pathlib import Path

from astra_kernels.errors import AstraError, UserError
from astra_kernels.evaluation.stage import JobRequest, stage_job
from astra_kernels.exporters.regions import Region
from astra_kernels.extraction.extract import sources_of
from astra_kernels.jobs.run_job import run_job
from astra_kernels.records.candidate import Candidate
from astra_kernels.records.describe import describe
from astra_kernels.records.evaluation import Evaluation, Passed
from astra_kernels.records.problem import Problem
from astra_kernels.records.workload import Workload

DEVICE = "sim:h200"
CAPABILITY = 90
"""Of the simulated device: a guard for another one stays shut on it."""


@dataclass(frozen=True)
class Proved:
    """One thing about a patch: established, with what was seen, or not, with the reason."""

    name: str
    established: bool
    said: str
    failed: bool = False
    """Whether the opposite was seen."""


@dataclass(frozen=True)
class Engaged:
    """Which kernels ran at one workload."""

    workload: str
    axes: dict[str, int]
    inside: bool
    kernels: tuple[str, ...]
    """Mangled names."""
    blocks: tuple[tuple[int, int, int], ...]
    """Their threads in a block."""

    def as_wanted(self, namespace: str) -> bool:
        """Whether the new kernels ran inside the guard, and the old ones only outside."""
        new = [namespace in name for name in self.kernels]
        return bool(new) and (all(new) if self.inside else not any(new))


@dataclass(frozen=True)
class Verified:
    """What came of the patched operator."""

    verified: Proved
    engagement: Proved
    engaged: tuple[Engaged, ...] = ()


@dataclass(frozen=True)
class Patched:
    """A patched copy of the tree, and what is to be judged in it."""

    copy: Path
    operator_file: str
    line: int
    namespace: str
    regions: tuple[Region, ...]
    capability: int


def verify_patched(
    patched: Patched,
    problem: Problem,
    data_root: Path,
    workloads: tuple[Workload, ...],
    cache: Path,
) -> Verified:
    """Takes the operator out of a patched copy again, and judges it.

    Args:
        patched: the copy.
        problem: of the run; its reference decides.
        data_root: where its files lie.
        workloads: inside and outside of the guard.
        cache: where builds are kept.
    """
    try:
        candidate = _taken(patched, problem)
        outcome = _judged(problem, data_root, candidate, workloads, cache)
    except UserError as error:  # what could be taken out before cannot be any more
        said = f"the patched operator cannot be taken out again: {error}"
        return Verified(
            Proved("verified", False, said, failed=True), Proved("engagement", False, "not reached")
        )
    except AstraError as error:
        unknown = f"the patched operator could not be judged: {error}"
        return Verified(
            Proved("verified", False, unknown), Proved("engagement", False, "nothing ran")
        )
    if not isinstance(outcome, Passed):
        said = describe(outcome)
        return Verified(
            Proved("verified", False, said, failed=True), Proved("engagement", False, "not reached")
        )
    hidden = sum(w.hidden for w in outcome.workloads)
    said = f"correct on {len(outcome.workloads) - hidden} workloads and {hidden} hidden ones, on {DEVICE}"
    return Verified(Proved("verified", True, said), *_engagement(patched, outcome))


def _engagement(patched: Patched, outcome: Passed) -> tuple[Proved, tuple[Engaged, ...]]:
    rows = [w for w in outcome.workloads if w.profiles and not w.hidden]
    engaged = tuple(
        Engaged(
            row.uuid,
            dict(row.axes),
            any(r.holds(row.axes) for r in patched.regions) and patched.capability == CAPABILITY,
            tuple(p.kernel for p in row.profiles),
            tuple(p.block for p in row.profiles),
        )
        for row in rows
    )
    wrong = [e for e in engaged if not e.as_wanted(patched.namespace)]
    inside = sum(e.inside for e in engaged)
    if wrong:
        place = "inside" if wrong[0].inside else "outside"
        said = f"{place} of the guard, at {wrong[0].workload}, these ran: {', '.join(wrong[0].kernels)}"
        return Proved("engagement", False, said, failed=True), engaged
    said = (
        f"on {DEVICE} the new kernels alone ran at {inside} workloads inside of the guard, "
        f"the old ones alone at {len(engaged) - inside} outside"
    )
    return Proved("engagement", 0 < inside < len(engaged), said), engaged


def _taken(patched: Patched, problem: Problem) -> Candidate:
    """The patched operator's sources, under the names that the problem has for them."""
    assert problem.provenance is not None, "find_originals refuses such a problem"
    at = f"{patched.operator_file}:{patched.line}"
    files = sources_of(problem.provenance.symbol, str(patched.copy), at)
    return Candidate(sources=files, title="patched")


def _judged(
    problem: Problem,
    data_root: Path,
    candidate: Candidate,
    workloads: tuple[Workload, ...],
    cache: Path,
) -> Evaluation:
    scratch = Path(tempfile.mkdtemp(prefix="astra-export-"))
    try:
        request = JobRequest(
            device=DEVICE,
            candidate=candidate,
            workloads=workloads,
            seed=1,
            profile=True,
            hidden_seed=1,
        )
        stage_job(problem, data_root, request, scratch / "job")
        return run_job(scratch / "job", cache_dir=cache)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
