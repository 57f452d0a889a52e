"""The composition root: which class plays which part."""

from __future__ import annotations

import os
import secrets
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from astra_kernels.agents.rules.coding import RuleCoder
from astra_kernels.agents.rules.planning import RulePlanner
from astra_kernels.agents.rules.profiling import RuleProfiler
from astra_kernels.agents.rules.testing import RuleTester
from astra_kernels.errors import MachineFault
from astra_kernels.evaluation.confirm import Judge
from astra_kernels.evaluation.local import Host, LocalEvaluator
from astra_kernels.optimize import Optimizer
from astra_kernels.protocols import Strategy, TestingAgent
from astra_kernels.records.history import History
from astra_kernels.records.journal import Journal
from astra_kernels.records.problem import Problem
from astra_kernels.records.run import Event, RunConfig
from astra_kernels.rounds import Team
from astra_kernels.search import Beam, Linear

_PASSED_ON = (
    "PATH",
    "PYTHONPATH",
    "HOME",
    "LANG",
    "LC_ALL",
    "TMPDIR",
    "XDG_CACHE_HOME",
    "LD_LIBRARY_PATH",
)
_PASSED_ON_PREFIXES = ("CUDA_", "ASTRA_")


def default_device() -> str:
    """`cuda:0` where the kernel driver shows a GPU, else the simulated H200."""
    return "cuda:0" if Path("/dev/nvidia0").exists() else "sim:h200"


def worker_environment() -> dict[str, str]:
    """What a worker needs of this environment: never a key or a token."""
    return {
        name: value
        for name, value in os.environ.items()
        if name in _PASSED_ON or name.startswith(_PASSED_ON_PREFIXES)
    }


@contextmanager
def local_evaluator(
    problem: Problem, device: str, data_root: Path, *, safety: bool = False
) -> Iterator[LocalEvaluator]:
    """An evaluator with a scratch directory that goes with it; `safety` runs the safety tools in jobs that confirm.

    Raises:
        MachineFault: when there is no room for a scratch directory.
    """
    try:
        scratch = tempfile.TemporaryDirectory(prefix="astra.")
    except OSError as error:
        raise MachineFault(f"no scratch directory: {error.strerror or error}; set TMPDIR") from None
    with scratch as name:
        host = Host(
            scratch=Path(name),
            environment=worker_environment(),
            data_root=data_root,
            builds=_build_cache() or Path(name) / "builds",
            safety=safety,
        )
        yield LocalEvaluator(problem, device, host)


def _build_cache() -> Path | None:
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
    return secrets.randbits(48)


def judge_elsewhere(evaluator: LocalEvaluator, device: str) -> Judge | None:
    """Judges candidates on another GPU of this machine, or None where there is none."""
    if not device.startswith("cuda:") or _visible_gpus() < 2:
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


def team_of(problem: Problem, config: RunConfig, journal: Journal) -> Team:
    """The four roles and the strategy."""
    return Team(
        testing=testing_agent(),
        profiling=RuleProfiler(),
        planning=RulePlanner(),
        coding=RuleCoder(problem),
        strategy=strategy_of(config),
    )


def strategy_of(config: RunConfig) -> Strategy:
    """Who decides where to search."""
    if config.strategy == "beam":
        return Beam(config.budget, width=config.beam)
    return Linear(config.budget, keep_best=config.keep_best)


def optimizer(
    problem: Problem,
    evaluator: LocalEvaluator,
    history: History,
    write: Callable[[Event], None],
    config: RunConfig,
) -> Optimizer:
    """The team that the configuration asks for, around one problem."""
    journal = Journal(history, write)
    if history.baseline_evaluation is not None:
        evaluator.learn_baseline(history.baseline_evaluation, config.seed)
    return Optimizer(
        problem=problem,
        config=config,
        team=team_of(problem, config, journal),
        evaluator=evaluator,
        journal=journal,
        fresh_seed=fresh_seed,
        elsewhere=judge_elsewhere(evaluator, config.device),
    )
