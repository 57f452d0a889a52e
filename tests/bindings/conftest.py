import json
import shutil
from pathlib import Path

import pytest

from astra_kernels.evaluation.stage import JobRequest, stage_job
from astra_kernels.importers.problem_dir import load_problem
from astra_kernels.jobs.run_job import run_job
from astra_kernels.records.candidate import Candidate

PROBLEMS = Path(__file__).parent / "problems"


@pytest.fixture
def copied(tmp_path):
    """A copy of a problem, with texts of its files replaced and fields of its solution's spec set."""

    def copy(name, replaced=(), **spec):
        root = tmp_path / name
        shutil.copytree(PROBLEMS / name, root)
        for path, old, new in replaced:
            text = (root / path).read_text()
            assert old in text
            (root / path).write_text(text.replace(old, new))
        file = root / "baseline" / "solution.json"
        solution = json.loads(file.read_text())
        solution["spec"].update(spec)
        file.write_text(json.dumps(solution))
        return root

    return copy


@pytest.fixture
def judged(tmp_path, build_cache):
    """What becomes of a problem's baseline, or of a candidate that differs from it."""

    def judge(root, changes=None, hidden=None, device="sim:h200"):
        problem = load_problem(root)
        candidate = problem.baseline
        if changes:
            sources = dict(candidate.sources)
            for path, old, new in changes:
                assert old in sources[path]
                sources[path] = sources[path].replace(old, new)
            candidate = Candidate(sources=sources, parent=candidate.id)
        job = tmp_path / f"job-{len(list(tmp_path.iterdir()))}"
        request = JobRequest(
            device=device,
            candidate=candidate,
            workloads=problem.workloads,
            seed=3,
            hidden_seed=hidden,
        )
        stage_job(problem, root, request, job)
        return run_job(job, cache_dir=build_cache)

    return judge


@pytest.fixture
def first_message():
    """The first thing that a failed build says."""

    def first(outcome):
        assert outcome.outcome == "build_failed", outcome
        return outcome.messages[0].message

    return first
