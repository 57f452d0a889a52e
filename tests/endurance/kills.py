"""`astra optimize` as a real process, killed with SIGKILL at random moments and gone on with.

Evaluations come from a spool that one undisturbed run has filled through a worker, with the real compiler and the
simulated device: so every later run judges the same, and as fast as it asks.
"""

import contextlib
import json
import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

from astra_kernels.records.canonical import canonical
from astra_kernels.records.history import History
from astra_kernels.store import EVENTS, RunStore
from tests.app.conftest import FILES, workload

HERE = Path(__file__).parent
MODEL = "scripted-model"
MARK = "LC_ASTRA_TRIAL"
"""A variable that commands are handed on, so that whatever a trial started can be found."""
GONE_S, END_S = 30.0, 300.0
SIZES = ((3, 1000),)


@dataclass
class Ground:
    """Where runs are killed: a problem, a spool with all evaluations, and the undisturbed run."""

    directory: Path
    rounds: int
    answers_in_s: float = 0.3
    """A model answers within that many seconds."""

    @property
    def whole(self):
        return self.directory / "whole"

    def make(self):
        """Write the problem and run it undisturbed, with a worker at the other end of the spool."""
        files = {**FILES, "workload.jsonl": "\n".join(json.dumps(workload(*s)) for s in SIZES)}
        files["definition.json"] = _smaller(files["definition.json"])
        for name, text in files.items():
            path = self.directory / "problem" / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        (self.directory / "bin").mkdir()
        (self.directory / "bin" / MODEL).symlink_to(HERE / MODEL)
        run = self.begin(self.whole, f"cli:{MODEL}")
        while not (self.directory / "spool").is_dir() and run.poll() is None:
            time.sleep(0.05)
        worker = self.astra(self.whole, "worker", "--spool", self.directory / "spool")
        try:
            while run.poll() is None:
                assert worker.poll() is None, worker.communicate()
                time.sleep(0.1)
        finally:
            for process in (run, worker):
                if process.poll() is None:
                    process.terminate()
            worker.communicate(timeout=END_S)
        ended(run)
        events = RunStore.open(self.whole).events()
        assert sum(e.event == "candidate_evaluated" for e in events) >= 2
        return self

    def begin(self, run, model):
        limits = ("--requests", 400, "--tokens", 4_000_000, "--rounds", self.rounds)
        return self.astra(
            run, "optimize", self.directory / "problem", "--device", "sim:h200", "--model", model, "--no-memory",
            *limits, "--run", run, "--evaluator", f"spool:{self.directory / 'spool'}",
        )  # fmt: skip

    def resume(self, run):
        spool = f"spool:{self.directory / 'spool'}"
        return self.astra(run, "optimize", "--resume", run, "--evaluator", spool)

    def astra(self, mark, *words):
        path = f"{self.directory / 'bin'}:{os.environ['PATH']}"
        said = {"LC_SCRIPTED_MODEL_S": str(self.answers_in_s), MARK: str(mark)}
        return subprocess.Popen(
            [sys.executable, "-m", "astra_kernels", *map(str, words)],
            env={**os.environ, "PATH": path, **said}, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        )  # fmt: skip


def _smaller(definition):
    """The definition with smaller domains, whose hidden workloads are small too."""
    written = json.loads(definition)
    written["axes"]["rows"]["domain"]["max"] = 32
    written["axes"]["columns"]["domain"]["max"] = 1024
    return json.dumps(written)


def ended(process):
    out, err = process.communicate(timeout=END_S)
    assert process.returncode == 0, err
    assert "Traceback" not in err, err
    return out, err


@dataclass
class Killed:
    """What one trial saw."""

    moments: list
    """Events in the log at each kill; -1 before there was a run."""
    lost: int
    """Requests in flight when it was killed."""


def a_killed_run(ground, seed):
    """Begin, kill one to three times, go on, compare with the undisturbed run."""
    chance = random.Random(seed)
    run = ground.directory / f"killed-{seed}"
    model = f"cli:{MODEL}" if seed % 2 == 0 else f"replay:{ground.whole}"
    lines = len((ground.whole / EVENTS).read_bytes().splitlines())
    moments = []
    for _ in range(chance.choice([1, 1, 2, 3])):
        process = ground.resume(run) if (run / EVENTS).exists() else ground.begin(run, model)
        if not kill(process, run, chance, lines):
            break
        require_gone(run)
        moments.append(log_of(run).count(b"\n") if log_of(run) else -1)
        if moments[-1] < 0:
            run = run.with_name(f"{run.name}+")
    before = log_of(run)
    ended(ground.resume(run) if before else ground.begin(run, model))
    require_gone(run)
    assert log_of(run).startswith(before[: before.rfind(b"\n") + 1]), "the log only grows"
    return compare(ground, run, moments)


def kill(process, run, chance, lines):
    """SIGKILL after a random time, or when the log has a random number of lines; False when it had ended before."""
    least = chance.randrange(1, lines + 1) if chance.random() < 0.7 else None
    deadline = time.monotonic() + (END_S if least else chance.uniform(0.2, 8.0))
    while process.poll() is None and time.monotonic() < deadline:
        if least is not None and log_of(run).count(b"\n") >= least:
            time.sleep(chance.random() * 0.05)
            break
        time.sleep(0.002)
    if process.poll() is not None:
        ended(process)
        return False
    process.send_signal(signal.SIGKILL)
    process.communicate(timeout=END_S)
    return True


def log_of(run):
    path = run / EVENTS
    return path.read_bytes() if path.exists() else b""


def compare(ground, run, moments):
    """The same decisions and answers as the undisturbed run, none made twice, within the budget."""
    whole, events = (RunStore.open(d).events() for d in (ground.whole, run))
    decided, again = canonical(whole), canonical(events)
    assert again[1:] == decided[1:]  # the first names the model
    wanted, history = History.fold(whole), History.fold(events)
    assert history.finished.best == wanted.finished.best
    judged = Counter(e.candidate.id for e in events if e.event == "candidate_evaluated")
    assert set(judged.values()) == {1}, "judged twice"
    ledger, budget = history.ledger, history.config.budget
    ends = {key: len(found) for key, found in ledger.ends().items()}
    assert ends == {key: len(found) for key, found in wanted.ledger.ends().items()}
    lost = ledger.asked.keys() - ledger.answered.keys() - ledger.failed.keys()
    charged = sum(c.charged.tokens for c in (*ledger.answered.values(), *ledger.failed.values()))
    aside = sum(ledger.asked[call].reserved.tokens for call in lost)
    assert ledger.tokens == charged + aside, "what is lost in flight is charged"
    assert ledger.requests <= budget.requests and ledger.tokens <= budget.tokens
    assert ledger.requests == wanted.ledger.requests + len(lost)
    return Killed(moments, len(lost))


def require_gone(run):
    """Whatever a killed command left running ends by itself, soon."""
    deadline = time.monotonic() + GONE_S
    while left := processes_of(run):
        assert time.monotonic() < deadline, left
        time.sleep(0.05)


def processes_of(run):
    """Command lines of live processes with the mark of a run in their environment."""
    mark = f"{MARK}={run}".encode()
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with contextlib.suppress(OSError):
                if mark in (entry / "environ").read_bytes().split(b"\0"):
                    found.append((entry / "cmdline").read_bytes())
    return found
