"""The composition root: which class plays which part."""

from __future__ import annotations

import os
import secrets
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from astra_kernels.agents.rules.testing import RuleTester
from astra_kernels.app.team import Engagement, require_models, team_of
from astra_kernels.devices.opening import require_device
from astra_kernels.errors import MachineFault, UserError
from astra_kernels.evaluation.confirm import Judge
from astra_kernels.evaluation.hosted import HostedEvaluator, Pulse, Terms
from astra_kernels.evaluation.local import LocalHost
from astra_kernels.evaluation.spool import Patience, SpoolHost
from astra_kernels.jobs.hosting import job_environment
from astra_kernels.jobs.spool import Spool
from astra_kernels.optimize import Optimizer, Screen
from astra_kernels.protocols import FreshSeed, TestingAgent
from astra_kernels.records.history import History
from astra_kernels.records.journal import Journal
from astra_kernels.records.problem import Problem
from astra_kernels.records.run import Event, RunConfig


def default_device() -> str:
    """`cuda:0` where the kernel driver shows a GPU, else the simulated H200."""
    return "cuda:0" if Path("/dev/nvidia0").exists() else "sim:h200"


@dataclass(frozen=True)
class Whereabouts:
    """Where jobs run: here, or wherever somebody drains a spool."""

    spool: Path | None = None
    timeout_s: float | None = None
    """Seconds to wait for one result of a spool."""

    @staticmethod
    def parse(text: str, timeout_s: float | None = None) -> Whereabouts:
        """What `--evaluator` says.

        Raises:
            UserError: it says something else, or the timeout goes with nothing.
        """
        kind, _, directory = text.partition(":")
        if kind == "spool" and directory:
            if timeout_s is not None and timeout_s < 0:
                raise UserError(f"--spool-timeout: seconds cannot be negative, not {timeout_s:g}")
            return Whereabouts(Path(directory), timeout_s)
        if text != "local":
            raise UserError(f"--evaluator: use local or spool:DIR, not {text!r}")
        if timeout_s is not None:
            raise UserError("--spool-timeout: only with --evaluator spool:DIR")
        return Whereabouts()

    def default_device(self) -> str:
        """The device of this machine, or the first GPU of the machine that drains the spool."""
        return default_device() if self.spool is None else "cuda:0"

    def option(self) -> str:
        """What has to be said again to go on, with a space before it; nothing for this machine."""
        return "" if self.spool is None else f" --evaluator spool:{self.spool}"


def require_openable(config: RunConfig) -> None:
    """Refuse a run that could not begin, before its directory is made.

    Raises:
        UserError: no such device, or as `require_models`.
        SetupError: something is not installed.
    """
    for device in (config.device, config.screen):
        if device is not None:
            require_device(device)
    require_models(config)


@contextmanager
def evaluator_at(
    where: Whereabouts,
    problem: Problem,
    device: str,
    data_root: Path,
    *,
    safety: bool = False,
    pulse: Pulse | None = None,
) -> Iterator[HostedEvaluator]:
    """An evaluator whose jobs run there; `safety` runs the safety tools in jobs that confirm.

    `pulse` accompanies its jobs.

    Raises:
        UserError: the spool cannot be used.
        MachineFault: when there is no room for a scratch directory.
    """
    if where.spool is None:
        with local_evaluator(problem, device, data_root, safety=safety, pulse=pulse) as evaluator:
            yield evaluator
        return

    def say(text: str) -> None:
        print(text, file=sys.stderr, flush=True)

    patience = Patience(say, where.timeout_s, pulse=pulse)
    host = SpoolHost(problem, data_root, Spool.create(where.spool), patience)
    yield HostedEvaluator(problem, device, host, Terms(safety=safety))


@contextmanager
def local_evaluator(
    problem: Problem,
    device: str,
    data_root: Path,
    *,
    safety: bool = False,
    pulse: Pulse | None = None,
) -> Iterator[HostedEvaluator]:
    """An evaluator on this machine; `safety` runs the safety tools in jobs that confirm.

    Raises:
        MachineFault: when there is no room for a scratch directory.
    """
    try:
        scratch = tempfile.TemporaryDirectory(prefix="astra.")
    except OSError as error:
        raise MachineFault(f"no scratch directory: {error.strerror or error}; set TMPDIR") from None
    with scratch as name:
        host = LocalHost(
            problem=problem,
            scratch=Path(name),
            environment=job_environment(os.environ),
            data_root=data_root,
            builds=build_cache() or Path(name) / "builds",
            pulse=pulse,
        )
        yield HostedEvaluator(problem, device, host, Terms(safety=safety))


def build_cache() -> Path | None:
    """The user's cache of builds, or None where it cannot be written."""
    home = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    directory = Path(home) / "astra-kernels" / "builds"
    try:
        directory.mkdir(parents=True, exist_ok=True)
    except OSError:
        return None
    return directory if os.access(directory, os.W_OK) else None


def memory_file() -> Path:
    """Where what was learnt in earlier runs is kept; ASTRA_MEMORY names another file."""
    home = os.environ.get("XDG_DATA_HOME") or Path.home() / ".local" / "share"
    return Path(os.environ.get("ASTRA_MEMORY") or Path(home) / "astra-kernels" / "memory.jsonl")


def fresh_seed() -> int:
    """A seed that nobody could have known before."""
    return FreshSeed(secrets.randbits(48))


def judge_elsewhere(evaluator: HostedEvaluator, where: Whereabouts, device: str) -> Judge | None:
    """Judges candidates on another GPU of this machine, or None where there is none or they run elsewhere."""
    if where.spool is not None or not device.startswith("cuda:") or _visible_gpus() < 2:
        return None
    other = evaluator.on("cuda:1" if device == "cuda:0" else "cuda:0")
    return lambda candidate, workloads: other.evaluate(candidate, workloads, fresh_seed(), "search")


def _visible_gpus() -> int:
    """GPUs that the driver shows and the environment does not hide."""
    shown = len(list(Path("/dev").glob("nvidia[0-9]*")))
    chosen = os.environ.get("CUDA_VISIBLE_DEVICES")
    return shown if chosen is None else min(shown, len([d for d in chosen.split(",") if d]))


def testing_agent() -> TestingAgent:
    """Who proposes the workloads that every candidate is checked on besides the problem's."""
    return RuleTester()


@contextmanager
def screen_of(engaged: Engagement) -> Iterator[Screen | None]:
    """The simulated device of this machine that candidates have to pass first, where the run has one."""
    device = engaged.config.screen
    if device is None:
        yield None
        return
    with local_evaluator(engaged.problem, device, engaged.data_root) as evaluator:
        yield lambda candidates, workloads: evaluator.evaluate_all(
            candidates, workloads, engaged.config.seed, "search"
        )


@contextmanager
def optimizer(
    engaged: Engagement,
    evaluator: HostedEvaluator,
    history: History,
    write: Callable[[Event], None],
    where: Whereabouts | None = None,
) -> Iterator[Optimizer]:
    """The loop around one problem, with the team that the configuration asks for.

    Raises:
        AstraError: as `team_of` does.
    """
    journal = Journal(history, write)
    config = engaged.config
    if history.baseline_evaluation is not None:
        evaluator.learn_baseline(history.baseline_evaluation, config.seed)
    with team_of(engaged, journal) as team, screen_of(engaged) as screen:
        yield Optimizer(
            problem=engaged.problem,
            config=config,
            team=team,
            evaluator=evaluator,
            journal=journal,
            fresh_seed=fresh_seed,
            screen=screen,
            elsewhere=judge_elsewhere(evaluator, where or Whereabouts(), config.device),
        )
