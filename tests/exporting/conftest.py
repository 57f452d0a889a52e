"""Runs that end with a hand-made winner, judged and timed (modelled) for real, and the git trees they are from."""

import dataclasses
import hashlib
import json
import shutil
import subprocess
from pathlib import Path

import pytest

from astra_kernels.app.runs import read_run
from astra_kernels.evaluation.local import read_result
from astra_kernels.evaluation.stage import JobRequest, stage_job
from astra_kernels.exporters.export import Asked, export
from astra_kernels.exporters.files import write_problem
from astra_kernels.importers.problem_dir import load_problem
from astra_kernels.jobs.run_job import run_job
from astra_kernels.records.candidate import Candidate
from astra_kernels.records.evaluation import Measured, Passed
from astra_kernels.records.plan import Plan
from astra_kernels.records.run import (
    BaselineEvaluated,
    CandidateEvaluated,
    RoundEnded,
    RunConfig,
    RunFinished,
    RunStarted,
    WinnerRemeasured,
    WorkloadsProposed,
)
from astra_kernels.store import RunStore

AT = {"at": "2026-12-01T00:00:00.000+00:00", "elapsed_s": 1.0}
PLAN = Plan(
    id="p1",
    parent="",
    technique="launch_geometry",
    hypothesis="More threads keep more loads in flight.",
    predicted_gain=1.2,
    risk="fewer blocks fit on a multiprocessor",
)


def git(tree, *words):
    done = subprocess.run(
        ["git", "-c", "user.name=t", "-c", "user.email=t@example.org", *words],
        cwd=tree, check=True, capture_output=True, text=True,
    )  # fmt: skip
    return done.stdout


def committed(tree):
    git(tree, "init", "--quiet")
    git(tree, "add", "--all")
    git(tree, "commit", "--quiet", "--message", "as it was")
    return tree


def state_of(tree):
    """Everything in a tree, git's own files included."""
    files = (p for p in sorted(tree.rglob("*")) if p.is_file())
    return {p.relative_to(tree).as_posix(): p.read_bytes() for p in files}


def provenance(tree, symbol, entry, files):
    """`provenance.json` of a problem; `files` is (path in problem, path in tree, whole)."""
    rows = [
        {
            "path_in_problem": here,
            "path_in_tree": there,
            "sha256": hashlib.sha256((tree / there).read_bytes()).hexdigest(),
            "whole": whole,
        }
        for here, there, whole in files
    ]
    name, path, line = entry
    return {
        "framework": tree.name,
        "version": "1.2",
        "commit": git(tree, "rev-parse", "HEAD").strip(),
        "symbol": symbol,
        "entry": {"name": name, "file": path, "line": line},
        "files": rows,
        "licence": None,
    }


def judged(problem, root, candidate, directory, cache):
    """The second look at a candidate on the simulated device."""
    request = JobRequest(
        device="sim:h200", candidate=candidate, workloads=problem.workloads, seed=3, hidden_seed=4
    )
    stage_job(problem, root, request, directory)
    run_job(directory, cache_dir=cache)
    return read_result(directory)


def write_run(
    directory, problem, problem_root, candidate, evaluation, *, control=None, everywhere=True
):
    """A finished run whose winner is `candidate`, or that has none and looked at `candidate` for some sizes."""
    store = RunStore.create(directory)
    write_problem(problem, directory / "problem", data_root=problem_root)
    copy = load_problem(directory / "problem")
    config = RunConfig(device="sim:h200", memory=False)
    best = candidate.id
    events = (
        RunStarted(config=config, problem=copy.name, problem_digest=copy.digest, astra_version="0.1.0", **AT),
        WorkloadsProposed(accepted=(), refused={}, **AT),
        BaselineEvaluated(candidate=copy.baseline, evaluation=evaluation, **AT),
        CandidateEvaluated(round=1, plan=PLAN, candidate=candidate, evaluation=evaluation, **AT),
        RoundEnded(round=1, **AT),
        WinnerRemeasured(candidate=best, evaluation=evaluation, holds=everywhere, control=control, **AT),
        RunFinished(reason="for the test", best=best if everywhere else None, **AT),
    )  # fmt: skip
    for event in events:
        store.append(event)
    return directory


def measured(evaluation, ratios, *, low=0.95, mean=None):
    """The same evaluation as if it had been measured: ratio by uuid, with the interval from `low` of it."""
    assert isinstance(evaluation, Passed)

    def timing(ratio):
        return Measured(
            baseline_us=10.0, candidate_us=10.0 / ratio, ratio=ratio, ratio_low=ratio * low,
            ratio_high=ratio / low, rounds=40, baseline_spread=0.01, candidate_spread=0.01,
        )  # fmt: skip

    rows = tuple(
        dataclasses.replace(w, timing=timing(ratios[w.uuid])) if w.uuid in ratios else w
        for w in evaluation.workloads
    )
    if mean is None:
        mean = 1.3 if any(r > 1 for r in ratios.values()) else 1.0
    return dataclasses.replace(
        evaluation,
        device="cuda:0 NVIDIA H200",
        workloads=rows,
        geomean=timing(mean),
        environment={
            **evaluation.environment,
            "device_name": "NVIDIA H200",
            "device_driver": "580.1",
        },
    )


def solution(name, path, symbol, binding, arguments, sources):
    spec = {
        "language": "cuda",
        "binding": binding,
        "entry_point": f"{path}::{symbol}",
        "arguments": arguments,
    }
    return json.dumps(
        {
            "name": f"{name}_baseline",
            "definition": name,
            "spec": spec,
            "sources": [{"path": p} for p in sources],
        }
    )


def changed(problem, *edits):
    """A candidate with texts of its files replaced."""
    sources = dict(problem.baseline.sources)
    for path, old, new in edits:
        assert old in sources[path]
        sources[path] = sources[path].replace(old, new)
    return Candidate(sources=sources, parent=problem.baseline.id, title="more threads in a block")


@pytest.fixture(scope="session")
def scale_home(made_once, build_cache):
    """A tree with a C operator whose header is changed too, its problem, and a judged winner."""
    return made_once("exporting-scale", lambda place: _make_scale(place, build_cache))


def _make_scale(place: Path, cache):
    from tests.exporting import scale

    tree = place / "engine"
    for path, text in scale.TREE.items():
        (tree / path).parent.mkdir(parents=True, exist_ok=True)
        (tree / path).write_text(text)
    committed(tree)
    root = place / "problem"
    for path, text in scale.problem_files(tree).items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(text)
    problem = load_problem(root)
    candidate = changed(problem, *scale.EDITS)
    evaluation = judged(problem, root, candidate, place / "job", cache)
    assert isinstance(evaluation, Passed), evaluation
    write_run(place / "run", problem, root, candidate, evaluation)


@pytest.fixture
def scale(scale_home, tmp_path):
    """A copy of the C operator's tree and run."""
    for name in ("engine", "run"):
        shutil.copytree(scale_home / name, tmp_path / name)
    return tmp_path


@pytest.fixture
def exported(build_cache):
    def make(home, tree="engine", **changes):
        run = read_run(home / "run")
        asked = Asked(
            run=home / "run", tree=home / tree, cache=build_cache, version="0.1.0",
            **{"modelled": True, "out": home / "out", **changes},
        )  # fmt: skip
        return export(asked, run.problem, home / "run" / "problem", run.history)

    return make
