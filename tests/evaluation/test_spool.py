"""A run at one end, a worker at the other, and a directory that is copied between them by any means."""

import dataclasses
import json
import os
import shutil
import subprocess
import tempfile
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from astra_kernels.errors import MachineFault, UserError
from astra_kernels.evaluation.hosted import HostedEvaluator
from astra_kernels.evaluation.spool import Patience, SpoolHost
from astra_kernels.jobs.hosting import host_job
from astra_kernels.jobs.lease import Holder, Leases
from astra_kernels.jobs.sealed import seal_of, write_sealed
from astra_kernels.jobs.spool import ATTEMPTS, LEASES, Fault, Manifest, Spool
from astra_kernels.jobs.worker import Orders, Worker
from astra_kernels.protocols import FreshSeed
from astra_kernels.records.candidate import Candidate

from .conftest import edited, norm_problem

KERNELS = {
    "passed": edited("row[i] * scale * weight[i]", "weight[i] * (row[i] * scale)"),
    "incorrect": edited("sum / columns + eps", "sum / columns + 1.0f"),
    "build_failed": edited("cudaGetLastError();", "cudaGetLastError()"),
}
CANDIDATES = [Candidate(sources={"norm.cu": text}) for text in KERNELS.values()]


class End:
    """The run's end of a spool: what it is told, and a host that gives up at once."""

    def __init__(self, directory, problem=None, most_s=0.0):
        self.problem = problem or norm_problem()
        self.said = []
        patience = Patience(self.said.append, most_s, poll_s=0.01)
        self.host = SpoolHost(self.problem, directory, Spool.create(directory), patience)
        self.evaluator = HostedEvaluator(self.problem, "sim:h200", self.host)

    def ask(self, effort="search", seed=3, candidates=CANDIDATES):
        return self.evaluator.evaluate_all(candidates, self.problem.workloads, seed, effort)


def drain(directory, run, **orders):
    with tempfile.TemporaryDirectory() as scratch:
        leases = Leases(directory / LEASES, Holder.here())
        Worker(
            Spool.open(directory), leases, Orders(run, Path(scratch), drain=True, **orders)
        ).work()


@pytest.fixture(scope="session")
def really(build_cache):
    """Runs jobs as a worker does."""
    return lambda job, spec, pulse: host_job(job, spec, dict(os.environ), build_cache, pulse=pulse)


@pytest.fixture(scope="session")
def recorded(tmp_path_factory, toolchain, really):
    """The real results of all candidates, by the text that is judged; and a way to run jobs that gives these."""
    directory = tmp_path_factory.mktemp("recorded") / "spool"
    end, results = End(directory, most_s=60), {}

    def kept(job, spec, pulse):
        really(job, spec, pulse)
        results[(job / "candidate" / "norm.cu").read_text()] = (job / "result.json").read_bytes()

    evaluations = end.ask()
    drain(directory, kept)
    expected = list(evaluations)

    def run(job, spec, pulse):
        (job / "result.json").write_bytes(results[(job / "candidate" / "norm.cu").read_text()])

    return expected, run


def files(directory, *tops):
    found = (p for top in tops for p in (directory / top).rglob("*") if p.is_file())
    return sorted(p.relative_to(directory) for p in found)


def copy(source, target, path, share=1.0):
    """As `cp` does it, in place; below 1 killed in between, a negative share with room for the rest made before."""
    data = (source / path).read_bytes()
    copied = data[: int(len(data) * abs(share))]
    (target / path).parent.mkdir(parents=True, exist_ok=True)
    (target / path).write_bytes(copied if share >= 0 else copied.ljust(len(data), b"\0"))


def test_all_jobs_are_written_at_once_and_answered_in_order(recorded):
    expected, _ = recorded
    assert [e.outcome for e in expected] == list(KERNELS)


THERE = ("spool.json", "jobs", "results", "faults")
BACK = ("results", "faults")
SHARES = st.sampled_from([0, 0.4, 0.99, -0.6, 1, 1])
steps = st.lists(
    st.one_of(
        st.tuples(st.just("there"), st.integers(0, 99), SHARES),
        st.tuples(st.just("back"), st.integers(0, 99), SHARES),
        st.tuples(st.sampled_from(["work", "look", "resume"])),
    ),
    max_size=30,
)


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(steps=steps, copied_before=st.booleans())
@pytest.mark.full
def test_whatever_the_order_of_copies_the_evaluations_are_the_same(steps, copied_before, recorded):
    expected, run = recorded
    with tempfile.TemporaryDirectory() as directory:
        here, there = Path(directory, "here"), Path(directory, "there")
        there.mkdir()
        end = End(here)
        evaluations = end.ask()
        jobs = files(here, "jobs")
        for path in [Path("spool.json"), *jobs] if copied_before else []:
            copy(here, there, path)
        for kind, *choice in steps:
            if kind == "work" and (there / "spool.json").exists():
                try:
                    drain(there, run)
                except UserError as error:
                    assert "spool.json is incomplete" in str(error)
            elif kind == "look":
                for name in end.host.open:
                    manifest = end.host.spool.manifest(name)
                    result = end.host.result(manifest)
                    if result is not None:
                        assert result.evaluation["outcome"] in KERNELS
            elif kind == "resume":
                end = End(here)
                evaluations = end.ask()
            elif kind in ("there", "back"):
                source, target = (here, there) if kind == "there" else (there, here)
                found = files(source, *(THERE if kind == "there" else BACK))
                found += [Path("spool.json")] if kind == "there" else []
                if found:
                    copy(source, target, found[choice[0] % len(found)], choice[1])
        for path in [Path("spool.json"), *files(here, *THERE)]:
            copy(here, there, path)
        drain(there, run)
        for path in files(there, *BACK):
            copy(there, here, path)
        assert list(evaluations) == expected
        assert files(here, "jobs") == jobs, "nothing is submitted twice"


def jobs_in(directory):
    return sorted(p.name for p in (directory / "jobs").iterdir())


def test_a_resumed_run_finds_its_jobs_with_the_seeds_that_were_drawn(tmp_path, recorded):
    _, run = recorded
    first = End(tmp_path)
    first.ask("confirm", FreshSeed(11), CANDIDATES[:1])
    first.ask("search", 3, CANDIDATES[:1])
    before = jobs_in(tmp_path)
    assert len(before) == 2
    drain(tmp_path, run)
    second = End(tmp_path)
    (confirmed,) = second.ask("confirm", FreshSeed(12), CANDIDATES[:1])
    (searched,) = second.ask("search", 3, CANDIDATES[:1])
    assert jobs_in(tmp_path) == before
    manifests = {m.seed: m for m in map(second.host.spool.manifest, before)}
    assert confirmed.hidden_seed == manifests[11].hidden_seed
    assert searched.hidden_seed is None
    spec = json.loads((tmp_path / "jobs" / manifests[11].name / "job.json").read_text())
    assert {w["seed"] for w in spec["workloads"] if not w["hidden"]} == {11}
    assert manifests[11].hidden_seed != manifests[3].hidden_seed


def test_another_question_is_another_job(tmp_path):
    end = End(tmp_path)
    asked = [("search", 3), ("search", 4), ("confirm", 3), ("confirm", FreshSeed(3)), ("search", 3)]
    for effort, seed in asked:
        end.ask(effort, seed, CANDIDATES[:1])
    end.evaluator.evaluate_all(CANDIDATES[:1], end.problem.workloads[:1], 3, "search")
    end.evaluator.on("cuda:0").evaluate_all(CANDIDATES[:1], end.problem.workloads, 3, "search")
    end.ask(candidates=CANDIDATES[1:2])
    other = End(tmp_path, norm_problem(domains=False))
    other.ask(candidates=CANDIDATES[:1])
    assert len(jobs_in(tmp_path)) == len(asked) + 4


def test_what_is_awaited_is_said_and_a_timeout_keeps_the_jobs(tmp_path):
    end = End(tmp_path)
    evaluations = end.ask()
    with pytest.raises(MachineFault, match=r"3 jobs in .* not answered within 0 s"):
        next(evaluations)
    waiting = End(tmp_path, most_s=0.1)
    with pytest.raises(MachineFault):
        next(waiting.ask())
    assert waiting.said == [f"waiting for 3 jobs in {tmp_path} (astra worker --spool {tmp_path})"]
    assert len(jobs_in(tmp_path)) == 3


def test_machine_faults_are_counted_and_a_resumed_run_tries_again(tmp_path, recorded):
    expected, run = recorded
    end = End(tmp_path)
    evaluations = end.ask(candidates=CANDIDATES[:1])
    (name,) = end.host.open
    manifest = end.host.spool.manifest(name)
    asked = []

    def broken(job, spec, pulse):
        asked.append(spec)
        raise MachineFault("device lost")

    drain(tmp_path, broken)
    assert len(asked) == ATTEMPTS, "and no more"
    assert len(end.host.spool.faults(manifest)) == ATTEMPTS
    with pytest.raises(MachineFault, match="machines failed 3 times, last: device lost"):
        next(evaluations)
    drain(tmp_path, run)
    assert not list(tmp_path.rglob("results/*.json"))
    again = End(tmp_path)
    evaluations = again.ask(candidates=CANDIDATES[:1])
    drain(tmp_path, run)
    assert list(evaluations) == expected[:1]
    assert jobs_in(tmp_path) == [name, f"{name}-2"]


def test_a_fault_on_one_machine_is_made_good_by_another(tmp_path, recorded):
    expected, run = recorded
    evaluations = End(tmp_path, most_s=5).ask()
    failed = []

    def flaky(job, spec, pulse):
        if len(failed) < 2:
            failed.append(spec)
            raise MachineFault("device lost")
        run(job, spec, pulse)

    drain(tmp_path, flaky)
    assert list(evaluations) == expected


def test_a_machine_that_fails_on_every_job_stops(tmp_path, recorded):
    expected, run = recorded
    evaluations = End(tmp_path).ask()

    def broken(job, spec, pulse):
        raise MachineFault("device lost")

    with pytest.raises(MachineFault, match="3 jobs in a row failed on this machine"):
        drain(tmp_path, broken)
    drain(tmp_path, run)
    assert list(evaluations) == expected


def test_a_result_of_another_job_is_ignored_and_reported(tmp_path, recorded):
    expected, run = recorded
    End(tmp_path).ask(candidates=CANDIDATES[:1])
    drain(tmp_path, run)
    shutil.rmtree(tmp_path / "jobs")
    end = End(tmp_path, most_s=0.1)  # writes the job again, with another hidden seed
    evaluations = end.ask(candidates=CANDIDATES[:1])
    with pytest.raises(MachineFault, match="not answered"):
        next(evaluations)
    assert any("answers another job of this name; ignored" in line for line in end.said)
    drain(tmp_path, run)
    assert list(End(tmp_path).ask(candidates=CANDIDATES[:1])) == expected[:1]


def test_a_changed_result_is_ignored_and_reported(tmp_path, recorded):
    _, run = recorded
    end = End(tmp_path)
    evaluations = end.ask(candidates=CANDIDATES[1:2])
    drain(tmp_path, run)
    (result,) = (tmp_path / "results").glob("*.json")
    text = result.read_text()
    result.write_text(text.replace('"mismatches": ', '"mismatches": 1'))
    assert result.read_text() != text
    with pytest.raises(MachineFault, match="not answered"):
        next(evaluations)
    assert any("seal does not match" in line for line in end.said)


@pytest.mark.parametrize("text", ["", "[" * 100_000, "9" * 5000, "null", "[1, 2]"])
def test_a_result_that_is_no_document_is_reported_and_made_again(tmp_path, recorded, text):
    _, run = recorded
    end = End(tmp_path)
    evaluations = end.ask(candidates=CANDIDATES[1:2])
    (name,) = jobs_in(tmp_path)
    (tmp_path / "results").mkdir(exist_ok=True)
    (tmp_path / "results" / f"{name}.json").write_text(text)
    with pytest.raises(MachineFault, match="not answered"):
        next(evaluations)
    assert any(f"{name}.json" in line for line in end.said)
    drain(tmp_path, run)
    assert next(End(tmp_path).ask(candidates=CANDIDATES[1:2]))


@pytest.mark.parametrize("lost", ["manifest.json", "candidate/norm.cu", "job.json"])
@pytest.mark.parametrize("share", [None, 0.5])
def test_a_job_that_is_not_whole_is_nobodys(tmp_path, recorded, capsys, lost, share):
    _, run = recorded
    End(tmp_path).ask(candidates=CANDIDATES[:1])
    (name,) = jobs_in(tmp_path)
    victim = tmp_path / "jobs" / name / lost
    whole = victim.read_bytes()
    victim.unlink() if share is None else victim.write_bytes(whole[: int(len(whole) * share)])
    drain(tmp_path, run)
    assert not list(tmp_path.rglob("results/*"))
    assert f"job {name}" in (said := capsys.readouterr().err)
    assert "incomplete" in said
    assert lost in said
    with pytest.raises(UserError, match="finish copying it, or remove"):
        End(tmp_path).ask(candidates=CANDIDATES[:1])
    victim.write_bytes(whole)
    evaluations = End(tmp_path).ask(candidates=CANDIDATES[:1])
    drain(tmp_path, run)
    assert next(evaluations).outcome == "passed"


def test_a_job_whose_bytes_were_changed_is_not_run(tmp_path, recorded, capsys):
    _, run = recorded
    End(tmp_path).ask(candidates=CANDIDATES[:1])
    (source,) = tmp_path.rglob("candidate/norm.cu")
    source.write_text(source.read_text().replace("row[i]", "row[0]"))
    drain(tmp_path, run)
    assert "candidate/norm.cu has other contents" in capsys.readouterr().err
    assert not list(tmp_path.rglob("results/*"))


def test_what_is_not_listed_in_a_job_is_not_run(tmp_path, recorded):
    _, run = recorded
    End(tmp_path).ask(candidates=CANDIDATES[:1])
    (job,) = (tmp_path / "jobs").iterdir()
    (job / "conftest.py").write_text("raise SystemExit")
    seen = []

    def look(job, spec, pulse):
        seen.extend(sorted(p.name for p in job.iterdir()))
        run(job, spec, pulse)

    drain(tmp_path, look)
    assert seen == ["baseline", "candidate", "job.json", "reference.py"]


def test_a_manifest_leads_nowhere_else(tmp_path, recorded, capsys):
    _, run = recorded
    end = End(tmp_path)
    end.ask(candidates=CANDIDATES[:1])
    (name,) = jobs_in(tmp_path)
    manifest = end.host.spool.manifest(name)
    outside = {**manifest.sizes, "../../spool.json": 1}
    write_sealed(
        tmp_path / "jobs" / name / "manifest.json", dataclasses.replace(manifest, sizes=outside)
    )
    drain(tmp_path, run)
    assert "leads outside" in capsys.readouterr().err


def test_a_job_that_cannot_be_used_is_the_users_error(tmp_path, really):
    reference = "def run(x, weight, eps):\n    return x[weight, 'nonsense']\n"
    end = End(tmp_path, norm_problem(reference=reference))
    evaluations = end.ask(candidates=CANDIDATES[:1])
    drain(tmp_path, really)
    with pytest.raises(UserError, match=r"reference\.py"):
        next(evaluations)
    name, again = end.host.spool.names(), End(tmp_path, end.problem)
    again.ask(candidates=CANDIDATES[:1])
    assert jobs_in(tmp_path) == [*name, f"{name[0]}-2"], "what that machine lacked may be there now"


def test_a_job_of_another_version_is_left_to_a_worker_that_can_read_it(tmp_path, recorded, capsys):
    _, run = recorded
    spool = Spool.create(tmp_path)
    empty = Manifest(
        name="a", device="sim:h200", seed=0, hidden_seed=None, written="", astra_version="9.0",
        sizes={}, sha256={},
    )  # fmt: skip

    def write(job):
        job.mkdir(parents=True)
        (job / "job.json").write_text('{"schema_version": 99}')

    manifest = spool.add(empty, write)
    drain(tmp_path, run)
    assert "job a, by Astra 9.0, cannot be read" in capsys.readouterr().err
    assert spool.result(manifest) is None
    assert not spool.faults(manifest)


@pytest.mark.parametrize("size", ["8k", "40k"])
def test_a_full_disk_loses_nothing(tmp_path, recorded, size):
    """A tiny file system: no room for the first job, or for the second."""
    expected, run = recorded
    mount = ["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", tmp_path]
    if subprocess.run(mount, capture_output=True, check=False).returncode != 0:
        pytest.skip("cannot mount a file system here")
    try:
        end = End(tmp_path)
        with pytest.raises(MachineFault, match="No space left"):
            end.ask()
        before = jobs_in(tmp_path)
        assert len(before) < 3
        assert before == end.host.spool.names(), "nothing half-written"
        subprocess.run(["mount", "-o", "remount,size=9M", tmp_path], check=True)
        again = End(tmp_path)
        evaluations = again.ask()
        assert set(before) <= set(jobs_in(tmp_path))
        drain(tmp_path, run)
        assert list(evaluations) == expected
    finally:
        subprocess.run(["umount", tmp_path], check=True)


def test_a_directory_that_is_no_spool_is_refused(tmp_path):
    (tmp_path / "notes.txt").write_text("mine")
    with pytest.raises(UserError, match="no spool here"):
        Spool.create(tmp_path)
    with pytest.raises(UserError, match="no spool here"):
        Spool.open(tmp_path / "nowhere")
    with pytest.raises(UserError, match="Not a directory"):
        Spool.create(tmp_path / "notes.txt")
    assert [p.name for p in tmp_path.iterdir()] == ["notes.txt"]


def test_a_newer_spool_and_newer_jobs_are_left_alone(tmp_path, recorded, capsys):
    _, run = recorded
    End(tmp_path).ask(candidates=CANDIDATES[:1])
    (manifest,) = (tmp_path / "jobs").glob("*/manifest.json")
    for path in (manifest, tmp_path / "spool.json"):
        path.write_text(path.read_text().replace('"schema_version": 1', '"schema_version": 2'))
        if path == manifest:
            drain(tmp_path, run)
            assert (
                "written by a newer Astra (schema 2, this one reads 1)" in capsys.readouterr().err
            )
    with pytest.raises(UserError, match="newer Astra"):
        Spool.open(tmp_path)


def test_a_job_that_cannot_be_written_leaves_nothing(tmp_path):
    end = End(tmp_path)
    (tmp_path / "jobs").write_text("in the way")
    with pytest.raises(MachineFault, match="Not a directory"):
        end.ask(candidates=CANDIDATES[:1])
    (tmp_path / "jobs").unlink()
    end.ask(candidates=CANDIDATES[:1])
    assert len(jobs_in(tmp_path)) == 1


def test_what_a_killed_run_left_half_written_is_no_job_and_goes(tmp_path, recorded):
    _, run = recorded
    End(tmp_path).ask(candidates=CANDIDATES[:1])
    (name,) = jobs_in(tmp_path)
    (tmp_path / "jobs" / name).rename(tmp_path / "jobs" / f".{name}.0")
    drain(tmp_path, run)
    assert not list(tmp_path.rglob("results/*"))
    End(tmp_path).ask(candidates=CANDIDATES[:1])
    assert jobs_in(tmp_path) == [name]


def test_a_worker_that_cannot_write_its_result_frees_the_job(tmp_path, recorded):
    expected, run = recorded
    evaluations = End(tmp_path).ask(candidates=CANDIDATES[:1])
    (tmp_path / "results").write_text("in the way")
    with pytest.raises(MachineFault, match="cannot be written"):
        drain(tmp_path, run)
    (tmp_path / "results").unlink()
    assert not list((tmp_path / LEASES).iterdir())
    drain(tmp_path, run)
    assert list(evaluations) == expected[:1]


def test_the_first_result_stays(tmp_path, recorded):
    """A worker that was held up, and whose job another one has done, changes nothing."""
    _, run = recorded
    end = End(tmp_path)
    end.ask(candidates=CANDIDATES[:1])
    drain(tmp_path, run)
    (name,) = jobs_in(tmp_path)
    manifest = end.host.spool.manifest(name)
    before = end.host.spool.result(manifest)
    end.host.spool.answer(manifest, dataclasses.replace(before, refusal="late"))
    assert end.host.spool.result(manifest) == before
    end.host.spool.add_fault(manifest, Fault(job=seal_of(manifest), detail="late", worker={}))
    assert next(End(tmp_path).ask(candidates=CANDIDATES[:1])).outcome == "passed"
