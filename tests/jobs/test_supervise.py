"""Children end with their supervisor, and nothing that they write is taken for more than it is."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from .staging import SILU, stage


def processes_that_mention(text):
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                words = (entry / "cmdline").read_bytes().decode(errors="replace")
            except OSError:
                continue
            if text in words and int(entry.name) != os.getpid():
                found.append(int(entry.name))
    return found


def wait_until(condition, seconds):
    deadline = time.monotonic() + seconds
    while not condition() and time.monotonic() < deadline:
        time.sleep(0.05)
    return condition()


@pytest.mark.parametrize("sent", [signal.SIGTERM, signal.SIGKILL])
def test_ending_the_supervisor_leaves_nothing_behind(tmp_path, toolchain, build_cache, sent):
    endless = SILU.replace("// before the launch", "volatile int forever = 1; while (forever) {}")
    job = stage(tmp_path / "job", None, endless)
    # a copy of the package's path marks the processes of this test alone
    marker = f"{tmp_path}"
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([marker, *filter(None, sys.path)])}
    worker = subprocess.Popen(
        [sys.executable, "-m", "astra_kernels.jobs", str(job), "--cache", str(build_cache)],
        env=environment,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )

    def children():
        return [pid for pid in processes_that_mention("astra_kernels.jobs.child") if mine(pid)]

    def mine(pid):
        try:
            return marker in Path(f"/proc/{pid}/environ").read_bytes().decode(errors="replace")
        except OSError:
            return False

    try:
        assert wait_until(children, 60), "the child never started"
        time.sleep(0.5)
    finally:
        os.kill(worker.pid, sent)
        worker.wait()
    assert wait_until(lambda: not children(), 10), "a child outlived its supervisor"
