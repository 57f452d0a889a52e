"""Worker processes on one spool: killed, interrupted, two at a time, without what Astra needs elsewhere."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from astra_kernels.jobs.spec import Limits
from astra_kernels.jobs.spool import Manifest, Spool

from .staging import FAST, SILU, stage

ENDLESS = SILU.replace("// before the launch", "volatile int forever = 1; while (forever) {}")
ABSENT = (
    "pydantic",
    "ml_dtypes",
    "torch",
    "safetensors",
    "cyclopts",
    "rich",
    "tree_sitter",
    "cuda",
)


@pytest.fixture
def spool(tmp_path, toolchain):
    return Spool.create(tmp_path / "spool")


def add(spool, name, source=FAST, device="sim:h200", **changes):
    manifest = Manifest(
        name=name, device=device, seed=7, hidden_seed=None, written=name, sizes={}, sha256={}
    )
    return spool.add(manifest, lambda job: stage(job, source, device=device, **changes))


@pytest.fixture
def worker(spool, build_cache):
    """Starts workers, and ends those that are left."""
    started = []

    def start(*arguments, **environment):
        command = [
            sys.executable,
            "-m",
            "astra_kernels.jobs.worker",
            "--spool",
            str(spool.directory),
        ]
        process = subprocess.Popen(
            [*command, "--cache", str(build_cache), *arguments],
            env={**os.environ, **environment}, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )  # fmt: skip
        started.append(process)
        return process

    yield start
    for process in started:
        if process.poll() is None:
            process.kill()
        process.communicate()


def ended(process, code=0):
    out, err = process.communicate(timeout=120)
    assert process.returncode == code, err
    assert "Traceback" not in err
    return out, err


def wait_for(condition, process):
    deadline = time.monotonic() + 60
    while not condition():
        assert process.poll() is None, process.communicate()[1]
        assert time.monotonic() < deadline
        time.sleep(0.05)


def children_of(pid):
    found = []
    for entry in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = entry.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if int(fields[1]) == pid and fields[0] != "Z":
            found.append(int(entry.parent.name))
    return found


def alive(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def test_a_worker_needs_python_and_numpy_only(spool, worker, tmp_path):
    manifest = add(spool, "a")
    lines = [f"sys.modules[{name!r}] = None" for name in ABSENT]
    (tmp_path / "site").mkdir()
    (tmp_path / "site" / "sitecustomize.py").write_text("\n".join(["import sys", *lines]))
    path = os.pathsep.join([str(tmp_path / "site"), *filter(None, sys.path)])
    out, _ = ended(worker("--drain", PYTHONPATH=path))
    assert out.startswith("a: passed in ")
    result = spool.result(manifest)
    assert result.evaluation["outcome"] == "passed"
    assert result.worker["host"]
    assert sorted(p.name for p in spool.job("a").iterdir()) == [
        "baseline", "candidate", "job.json", "manifest.json", "reference.py",
    ]  # fmt: skip


def test_a_killed_worker_leaves_its_job_to_another(spool, worker):
    slow = add(spool, "slow", ENDLESS, limits=Limits(correctness_s=10))
    first = worker()
    wait_for(lambda: (spool.directory / "leases" / "slow.json").exists(), first)
    wait_for(lambda: children_of(first.pid), first)
    (hosted,) = children_of(first.pid)
    first.send_signal(signal.SIGKILL)
    first.wait()
    deadline = time.monotonic() + 30
    while alive(hosted):
        assert time.monotonic() < deadline, "the job goes on without its worker"
        time.sleep(0.05)
    assert spool.result(slow) is None
    assert (spool.directory / "leases" / "slow.json").exists()
    out, _ = ended(worker("--drain"))
    assert out.startswith("slow: timed_out")
    assert spool.result(slow).evaluation["outcome"] == "timed_out"
    assert not list((spool.directory / "leases").iterdir())


@pytest.mark.parametrize("sent", [signal.SIGTERM, signal.SIGINT])
def test_an_interrupted_worker_gives_its_job_back(spool, worker, sent):
    slow = add(spool, "slow", ENDLESS, limits=Limits(correctness_s=10))
    first = worker()
    wait_for(lambda: (spool.directory / "leases" / "slow.json").exists(), first)
    wait_for(lambda: children_of(first.pid), first)
    first.send_signal(sent)
    _, err = ended(first, 130)
    assert "free for another worker" in err
    assert spool.result(slow) is None
    assert not list((spool.directory / "leases").iterdir())
    assert not [p for p in spool.directory.rglob(".*") if p.is_file()]


def test_two_workers_share_the_jobs(spool, worker):
    manifests = [add(spool, f"job-{n}") for n in range(4)]
    both = [worker("--drain"), worker("--drain")]
    lines = [line.split(":")[0] for process in both for line in ended(process)[0].splitlines()]
    assert sorted(lines) == [m.name for m in manifests], "each once"
    assert all(spool.result(m).evaluation["outcome"] == "passed" for m in manifests)
    assert ended(worker("--drain"))[0] == "", "nothing is left to do"


def test_once_is_one_job_the_oldest(spool, worker):
    add(spool, "b")
    add(spool, "a")
    assert ended(worker("--once"))[0].startswith("a: ")
    assert ended(worker("--once"))[0].startswith("b: ")
    assert ended(worker("--once"))[0] == ""


def test_a_worker_without_a_compiler_takes_no_job(spool, worker, tmp_path):
    add(spool, "a")
    _, err = ended(worker("--drain", PATH=str(tmp_path), CUDA_HOME="", CUDA_PATH=""), 3)
    assert "a worker builds the kernels that it judges" in err
    assert sorted(p.name for p in spool.directory.iterdir()) == ["jobs", "spool.json"]


@pytest.mark.skipif(Path("/dev/nvidiactl").exists(), reason="a GPU is here")
def test_a_job_for_a_gpu_waits_for_one(spool, worker):
    manifest = add(spool, "a", device="cuda:0")
    out, err = ended(worker("--drain"))
    assert (out, err.count("no GPU is here")) == ("", 1)
    assert not spool.faults(manifest)


def test_a_workers_device_takes_the_jobs_of_its_kind(spool, worker):
    add(spool, "real", device="cuda:0")
    other = add(spool, "simulated", device="sim:of-another-name")
    out, _ = ended(worker("--drain", "--device", "sim:h200"))
    assert out.startswith("simulated: passed")
    assert spool.result(other).evaluation["device"] == "sim:h200"
    spec = json.loads((spool.job("simulated") / "job.json").read_text())
    assert spec["device"] == "sim:of-another-name", "the spool's copy stays"


def test_no_spool_is_the_users_error(worker, spool):
    (spool.directory / "spool.json").unlink()
    _, err = ended(worker("--drain"), 2)
    assert "no spool here" in err
