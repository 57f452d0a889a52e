"""Starting a run, going on with one, reading one back."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from astra_kernels import __version__
from astra_kernels.app.compose import Whereabouts, evaluator_at, memory_file, optimizer
from astra_kernels.app.team import Engagement, require_own_agents
from astra_kernels.errors import AstraError, MachineFault, RunError
from astra_kernels.exporters.files import write_candidate, write_problem
from astra_kernels.importers.problem_dir import load_problem
from astra_kernels.memory import notes_of, recall, remember, told
from astra_kernels.records.history import History
from astra_kernels.records.problem import Problem
from astra_kernels.records.run import Event, RunConfig, RunResumed, RunStarted
from astra_kernels.store import RunStore

PROBLEM = "problem"
BEST = "best"
NOTES = "notes.txt"
"""What planners hear of earlier runs, as it was when the run began."""

Watch = Callable[[Event, History], None]
"""Called after each event is durable."""


@dataclass(frozen=True)
class Run:
    """A run directory and what its log tells."""

    directory: Path
    problem: Problem
    history: History


def start_run(
    problem_dir: Path, baseline: str | None, config: RunConfig, directory: Path | None
) -> Path:
    """Make the run directory, with a copy of the problem and the first event; returns it.

    Raises:
        ProblemError: the problem does not load.
        RunError: the directory cannot be made; nothing half-written stays.
    """
    problem = load_problem(problem_dir, baseline)
    show_notes(problem)
    target = directory or fresh_directory(problem.name)
    existed = target.exists()
    store = RunStore.create(target)
    try:
        write_problem(problem, target / PROBLEM, data_root=problem_dir)
        copy = load_problem(target / PROBLEM)
        if config.memory:
            (target / NOTES).write_text(told(recall(memory_file()), problem), encoding="utf-8")
        store.append(
            RunStarted(
                at=_now(),
                elapsed_s=0.0,
                config=config,
                problem=problem.name,
                problem_digest=copy.digest,
                astra_version=__version__,
            )
        )
    except (AstraError, OSError) as error:
        store.discard(keep=existed)
        if isinstance(error, MachineFault | OSError):
            raise RunError(f"{target}: cannot be written: {error}; choose another --run") from None
        raise
    return target


def continue_run(directory: Path, watch: Watch, where: Whereabouts, *, resumed: bool) -> Run:
    """Run to the end of the budget, appending to the log.

    Raises:
        RunError: the directory holds no run, is damaged, or another process works on it.
        ProblemError: the baseline fails.
        MachineFault: the machine failed; the run can be resumed.
    """
    store = RunStore.open(directory)
    with store.locked():
        store.cut_torn_line()
        run = read_run(directory)
        config = run.history.config
        assert config is not None, "read_run refuses such a log"
        require_own_agents(config)

        def write(event: Event) -> None:
            store.append(event)
            watch(event, run.history)

        if resumed and run.history.finished is None:
            write(RunResumed(at=_now(), elapsed_s=run.history.elapsed_s, astra_version=__version__))
        data = directory / PROBLEM
        with evaluator_at(where, run.problem, config.device, data, safety=True) as evaluator:
            engaged = Engagement(run.problem, config, data, read_notes(directory))
            with optimizer(engaged, evaluator, run.history, write, where) as loop:
                loop.run()
    write_best(run)
    if config.memory:
        _remember(run)
    return run


def read_notes(directory: Path) -> str:
    """What planners of a run hear of earlier ones."""
    path = directory / NOTES
    return path.read_text(encoding="utf-8") if path.is_file() else ""


def read_history(directory: Path, *, words: bool = True) -> History:
    """What a run's log tells, without its problem; what models were asked and answered only with `words`.

    Raises:
        RunError: when it is no run.
    """
    return History.fold(RunStore.open(directory).events(words=words))


def read_run(directory: Path, *, words: bool = True) -> Run:
    """Read a run back; what models were asked and answered only with `words`.

    Raises:
        RunError: when it is no run, or its problem was changed since it began.
    """
    history = History.fold(RunStore.open(directory).events(words=words))
    if history.config is None:
        raise RunError(
            f"{directory}: the log does not begin with the start of a run; start a new run"
        )
    problem = load_problem(directory / PROBLEM)
    if problem.digest != history.problem_digest:
        raise RunError(f"{directory / PROBLEM}: was changed since the run began; start a new run")
    return Run(directory, problem, history)


def write_best(run: Run) -> Path | None:
    """Write the winning files and their diff under `best/`; returns the directory, or None without a winner."""
    finished = run.history.finished
    if finished is None or finished.best is None:
        return None
    winner = next(a.candidate for a in run.history.attempts if a.candidate.id == finished.best)
    write_candidate(winner, run.problem.baseline, run.directory / BEST)
    return run.directory / BEST


def _remember(run: Run) -> None:
    """Add the run to the memory; that it cannot be written is no failure of the run."""
    notes = notes_of(run.history, run.problem, run.directory.resolve().name)
    try:
        remember(memory_file(), notes)
    except AstraError as error:
        print(f"note: this run is not remembered: {error}", file=sys.stderr)


def show_notes(problem: Problem) -> None:
    """Tell the user what the importer noticed."""
    for note in problem.notes:
        print(f"note: {note}", file=sys.stderr)


def fresh_directory(name: str, folder: Path = Path("runs")) -> Path:
    """A directory in `folder` for a new run of the problem `name`; it does not exist yet."""
    stamp = datetime.now(UTC).strftime("%Y%m%d-%H%M%S")
    base = folder / f"{name}-{stamp}"
    return next(
        p
        for p in (base, *(base.with_name(f"{base.name}-{n}") for n in range(2, 1000)))
        if not p.exists()
    )


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds")
