"""`--evaluator spool:DIR`: runs that wait for workers, are killed while they wait, and go on."""

import json
import re
import shutil
import signal
import time

import pytest

from .test_end_to_end import evaluated, events

SIM = ("--device", "sim:h200")


def jobs(spool):
    directory = spool / "jobs"
    return sorted(p.name for p in directory.glob("[!.]*"))


def subject(job):
    """The part of a job's name that says which candidate it judges."""
    return job.split("-")[1]


def wait_for(condition, process):
    deadline = time.monotonic() + 120
    while not condition():
        assert process.poll() is None, process.communicate()[1]
        assert time.monotonic() < deadline
        time.sleep(0.05)


@pytest.fixture
def worker(start):
    """Starts a worker that keeps waiting, and ends it."""
    started = []

    def begin(spool):
        started.append(start("worker", "--spool", spool))
        return started[-1]

    yield begin
    for process in started:
        process.send_signal(signal.SIGTERM)
        _, err = process.communicate(timeout=60)
        assert process.returncode == 130, err


def test_a_run_that_is_killed_while_it_waits_goes_on(repository, start, astra, worker, tmp_path):
    """Killed before and after the baseline's answer, the spool moved in between; the other end never sees the run."""
    problem, here = repository / "examples" / "silu_and_mul", tmp_path / "here"
    first = start(
        "optimize", problem, *SIM, "--rounds", "1", "--run", "run", "--evaluator", f"spool:{here}"
    )
    wait_for(lambda: len(jobs(here)) == 1, first)
    first.send_signal(signal.SIGKILL)
    first.communicate()
    there = tmp_path / "there"
    shutil.copytree(here, there)
    assert astra("worker", "--spool", there, "--drain").returncode == 0
    shutil.copytree(there / "results", here / "results")
    shutil.move(here, tmp_path / "moved")
    again = ("optimize", "--resume", "run", "--evaluator", f"spool:{tmp_path / 'moved'}")
    second = start(*again, "--spool-timeout", "60")  # should it never say that it waits
    wait_for(lambda: len(jobs(tmp_path / "moved")) > 1, second)
    assert [e["event"] for e in events(tmp_path / "run")].count("baseline_evaluated") == 1
    assert any(re.search(r"waiting for \d+ jobs? in", line) for line in second.stderr)
    second.send_signal(signal.SIGINT)
    _, err = second.communicate(timeout=60)
    assert second.returncode == 130
    assert f"--resume run --evaluator spool:{tmp_path / 'moved'}" in err
    worker(tmp_path / "moved")
    done = astra(*again, "--json")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["finished"] == "1 round done"
    tried = evaluated(tmp_path / "run")
    assert len(tried) == len(set(tried)) >= 3
    searched = [subject(n) for n in jobs(tmp_path / "moved") if n.startswith("search-")]
    assert len(set(searched)) == 1 + len(tried)
    assert len(searched) == len(set(searched)), "no job is submitted twice"
    assert str(tmp_path) not in (tmp_path / "run" / "events.jsonl").read_text()


@pytest.mark.full
def test_a_winner_is_confirmed_through_the_spool(problem, astra, worker, tmp_path):
    worker_end = tmp_path / "spool"
    asked = astra(
        "verify",
        problem,
        problem / "baseline",
        *SIM,
        "--evaluator",
        f"spool:{worker_end}",
        "--spool-timeout",
        "0",
    )
    assert asked.returncode == 4
    assert f"not answered within 0 s (astra worker --spool {worker_end})" in asked.stderr
    worker(worker_end)
    done = astra(
        "optimize",
        problem,
        *SIM,
        "--rounds",
        "1",
        "--run",
        "run",
        "--evaluator",
        f"spool:{worker_end}",
        "--json",
    )
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout)
    assert result["second_looks"][0]["holds"]
    assert [n for n in jobs(worker_end) if n.startswith("confirm-")]
    (tmp_path / "candidate.cu").write_text((tmp_path / "run" / "best" / "sigmoid.cu").read_text())
    judged = astra(
        "bench",
        problem,
        "candidate.cu",
        problem / "baseline",
        *SIM,
        "--evaluator",
        f"spool:{worker_end}",
        "--json",
    )
    assert judged.returncode == 0, judged.stderr
    assert len(json.loads(judged.stdout)["results"]) == 2
    confirmed = astra(
        "confirm", problem, "candidate.cu", *SIM, "--evaluator", f"spool:{worker_end}", "--json"
    )
    assert json.loads(confirmed.stdout)["verdict"] == "not established", confirmed.stderr


def test_jobs_for_a_gpu_are_written_without_one(problem, astra, tmp_path):
    done = astra(
        "optimize", problem, "--run", "run", "--evaluator", "spool:spool", "--spool-timeout", "0"
    )
    assert done.returncode == 4, done.stderr
    assert "then go on with: astra optimize --resume run --evaluator spool:spool" in done.stderr
    (job,) = jobs(tmp_path / "spool")
    spec = json.loads((tmp_path / "spool" / "jobs" / job / "job.json").read_text())
    assert spec["device"] == "cuda:0"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--evaluator", "ssh:host"], "use local or spool:DIR, not 'ssh:host'"),
        (["--evaluator", "spool:"], "use local or spool:DIR"),
        (["--evaluator", "spool:notes"], "no spool here"),
        (["--evaluator", "spool:notes/a.txt"], "Not a directory"),
        (["--evaluator", "spool:/proc/nope"], "cannot be written"),
        (["--evaluator", "spool:s", "--spool-timeout", "-1"], "cannot be negative"),
        (["--spool-timeout", "3"], "only with --evaluator spool:DIR"),
    ],
)
def test_bad_options_leave_nothing_behind(problem, astra, tmp_path, arguments, message):
    (tmp_path / "notes").mkdir()
    (tmp_path / "notes" / "a.txt").write_text("mine")
    done = astra("optimize", problem, *SIM, "--run", "run", *arguments)
    assert done.returncode == 2, done.stderr
    assert message in done.stderr
    assert sorted(p.name for p in tmp_path.iterdir()) == ["notes", "sigmoid"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "give JOB directories, or --spool DIR"),
        (["job", "--drain"], "give JOB directories, or --spool DIR"),
        (["job", "--spool", "s"], "not both"),
        (["--spool", "nowhere", "--drain"], "no spool here"),
    ],
)
def test_bad_orders_for_a_worker(astra, arguments, message):
    done = astra("worker", *arguments)
    assert done.returncode == 2
    assert message in done.stderr
