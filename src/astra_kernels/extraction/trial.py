"""A first run of a drafted problem on a simulated device: does it build, and does the reference agree with the kernel?"""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from pathlib import Path

from astra_kernels.errors import AstraError
from astra_kernels.evaluation.stage import JobRequest, stage_job
from astra_kernels.importers.problem_dir import load_problem
from astra_kernels.jobs.run_job import run_job
from astra_kernels.records.evaluation import Passed, TimedOut

DEVICE = "sim:h200"
_SEEDS = 2


@dataclass(frozen=True)
class Trial:
    """What came of it."""

    passed: bool
    said: str
    inputs: int = 0
    """On how many sets of inputs."""
    failure: str = ""
    """The kind of the outcome."""


def tried(directory: Path, cache: Path, hidden_seed: int = 1) -> Trial:
    """Judges the baseline of a problem on its own workloads and on hidden ones, with several seeds.

    Args:
        directory: the problem.
        cache: where builds are kept.
        hidden_seed: what hidden workloads are drawn from.
    """
    try:
        problem = load_problem(directory)
        untimed = tuple(w.model_copy(update={"timed": False}) for w in problem.workloads)
        count = 0
        for seed in range(_SEEDS):
            with tempfile.TemporaryDirectory(prefix="astra-trial-") as scratch:
                job = Path(scratch) / "job"
                request = JobRequest(
                    device=DEVICE,
                    candidate=problem.baseline,
                    workloads=untimed,
                    seed=seed,
                    profile=False,
                    hidden_seed=hidden_seed + seed,
                )
                stage_job(problem, directory, request, job)
                outcome = run_job(job, cache_dir=cache)
            if not isinstance(outcome, Passed):
                return Trial(False, describe(outcome), failure=outcome.outcome)
            count += len(outcome.workloads)
        return Trial(True, "", count)
    except AstraError as error:
        said = str(error).replace(f"{directory}/", "")  # it is made aside, under another path
        return Trial(False, said, failure=type(error).__name__)


def describe(outcome: object) -> str:
    """An outcome in one line."""
    if isinstance(outcome, TimedOut):
        return f"ran out of {outcome.limit_s:g} s in {outcome.stage}"
    kind = str(getattr(outcome, "outcome", "failed")).replace("_", " ")
    parts = [
        str(getattr(outcome, name, "") or "") for name in ("workload", "output", "rule", "detail")
    ]
    messages = getattr(outcome, "messages", ())
    parts += [f"{m.file}:{m.line}: {m.message}" for m in messages if m.severity == "error"][:3]
    return f"{kind}: {'; '.join(p for p in parts if p)}"
