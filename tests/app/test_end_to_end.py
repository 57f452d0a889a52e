"""The whole product on the simulated device: the real compiler, the real executor, real processes."""

import contextlib
import json
import os
import signal
import subprocess
import time
from pathlib import Path

import pytest

from tests.tiers import with_sample

from .conftest import KERNEL

SIM = ("--device", "sim:h200")


def processes_of(directory):
    """Command lines of live processes that mention a directory."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and int(entry.name) != os.getpid():
            with contextlib.suppress(OSError):
                line = (entry / "cmdline").read_bytes().decode(errors="replace")
                found += [line] if str(directory) in line else []
    return found


def test_optimize_finds_verifies_and_writes_a_better_kernel(problem, astra, tmp_path):
    done = astra("optimize", problem, *SIM, "--rounds", "2", "--run", "run", "--json")
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout)
    assert result["finished"] == "2 rounds done"
    best = next(a for a in result["attempts"] if a["candidate"] == result["best"])
    timing = best["evaluation"]["geomean"]
    assert timing["kind"] == "modelled"
    assert timing["gain"] > 1 + timing["model_error"]
    assert result["second_looks"][0]["holds"]
    directory = tmp_path / "run" / "best"
    assert (directory / "sigmoid.cu").read_text() != KERNEL
    subprocess.run(
        ["git", "apply", "--check", str(directory / "changes.diff")],
        cwd=problem / "baseline",
        check=True,
    )
    verified = astra("verify", problem, directory, *SIM)
    assert verified.returncode == 0, verified.stdout
    assert "12 hidden workloads correct" in verified.stdout
    assert "repeatable: yes (baseline: yes)" in verified.stdout
    assert "batch invariant: yes (baseline: yes)" in verified.stdout
    for attempt in result["attempts"]:
        hidden = [w for w in attempt["evaluation"].get("workloads", ()) if w["hidden"]]
        assert all(w["kind"] and not w["axes"] and not w["seed"] for w in hidden)
    second_look = result["second_looks"][0]["evaluation"]
    assert [w for w in second_look["workloads"] if w["hidden"] and w["axes"] and w["seed"]]
    assert second_look["hidden_seed"] is not None
    shown = astra("show", "run")
    assert "12 hidden workloads correct" in shown.stdout
    assert "modelled gain" in shown.stdout
    assert "speedup" not in (shown.stdout + done.stderr).lower()
    assert astra("optimize", "--resume", "run", "--json").stdout == done.stdout, (
        "a finished run stays as it is"
    )


def test_killed_and_interrupted_runs_resume(problem, start, astra, tmp_path):
    first = start("optimize", problem, *SIM, "--rounds", "2", "--run", "run")
    wait_for_events(tmp_path / "run", "candidate_evaluated", first)
    first.send_signal(signal.SIGKILL)
    first.communicate(timeout=60)
    wait_until_gone(tmp_path)
    judged = evaluated(tmp_path / "run")
    second = start("optimize", "--resume", "run")
    wait_for_events(tmp_path / "run", "run_resumed", second)
    time.sleep(1)
    second.send_signal(signal.SIGTERM)
    _, err = second.communicate(timeout=60)
    assert second.returncode == 130
    assert "--resume run" in err
    assert "Traceback" not in err
    wait_until_gone(tmp_path)
    done = astra("optimize", "--resume", "run", "--json")
    assert json.loads(done.stdout)["finished"]
    final = evaluated(tmp_path / "run")
    assert final[: len(judged)] == judged
    assert len(set(final)) == len(final), "no candidate is judged twice"


def events(run):
    path = run / "events.jsonl"
    if not path.exists():
        return []
    return [json.loads(line) for line in path.read_bytes().split(b"\n")[:-1]]


def evaluated(run):
    return [
        str(e["candidate"]["sources"]) for e in events(run) if e["event"] == "candidate_evaluated"
    ]


def wait_for_events(run, kind, process):
    deadline = time.monotonic() + 120
    while not any(e["event"] == kind for e in events(run)):
        assert process.poll() is None, process.communicate()[1]
        assert time.monotonic() < deadline
        time.sleep(0.05)


def wait_until_gone(directory):
    """Whatever a killed command left running must end by itself, soon."""
    deadline = time.monotonic() + 30
    while left := processes_of(directory):
        assert time.monotonic() < deadline, left
        time.sleep(0.1)


BAD_KERNELS = {
    "build_failed": ("cudaGetLastError();", "cudaGetLastError()"),
    "incorrect": ("1.0f + expf", "1.001f + expf"),
    "unsafe": ("i < columns", "i <= columns"),
    "crashed": ("return cudaGetLastError();", "return *(volatile int*)8;"),
    "timed_out": ("sigmoid_rows<<<", "for (volatile int spin = 1; spin;) {} sigmoid_rows<<<"),
    "rejected": ("return cudaGetLastError();", 'return cudaGetLastError() + system("true");'),
}


@pytest.mark.parametrize("outcome", with_sample([k for k in BAD_KERNELS if k != "timed_out"], 1, 4))
def test_a_bad_candidate_gets_its_outcome(outcome, problem, astra, tmp_path):
    old, new = BAD_KERNELS[outcome]
    text = KERNEL.replace(old, new)
    assert text != KERNEL
    if outcome == "rejected":
        text = "#include <cstdlib>\n" + text
    (tmp_path / "bad.cu").write_text(text)
    done = astra("verify", problem, "bad.cu", *SIM, "--json")
    assert done.returncode == 1, done.stderr
    assert json.loads(done.stdout)["results"][0]["evaluation"]["outcome"] == outcome


def test_a_candidate_for_the_public_sizes_is_found_out(problem, astra, tmp_path):
    known = " || ".join(f"columns == {size}" for size in (1, 7, 33, 257, 1031))
    known = f"i < ({known} ? columns : columns / 8 * 8)"
    (tmp_path / "bad.cu").write_text(KERNEL.replace("i < columns", known))
    done = astra("verify", problem, "bad.cu", *SIM)
    assert done.returncode == 1, done.stderr
    assert "decided by a hidden workload: " in done.stdout


BAD_BASELINES = {
    "does not compile": ("return cudaGetLastError();", "return nonsense;", "sigmoid.cu:15"),
    "disagrees with its reference": ("scale / (1.0f", "scale / (2.0f", "reference.py is wrong"),
    "lacks its entry point": ("int sigmoid(", "int other(", "sigmoid"),
}


@pytest.mark.parametrize("case", BAD_BASELINES)
def test_a_bad_baseline_is_refused_before_any_candidate(case, problem, astra):
    old, new, message = BAD_BASELINES[case]
    source = problem / "baseline" / "sigmoid.cu"
    source.write_text(KERNEL.replace(old, new))
    done = astra("optimize", problem, *SIM, "--run", "run")
    assert done.returncode == 2, done.stderr
    assert message in done.stderr
    assert done.stderr.count("astra: ") == 1


def test_a_reference_that_raises_is_named(problem, astra):
    (problem / "reference.py").write_text("def run(x, scale):\n    return x[scale, 'nonsense']\n")
    done = astra("optimize", problem, *SIM, "--run", "run")
    assert done.returncode == 2
    assert "reference.py" in done.stderr
    assert "line 2" in done.stderr or "reference.py:2" in done.stderr
