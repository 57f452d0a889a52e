"""Each verb once: load, do, render, exit code."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

from pydantic import ValidationError

from astra_kernels.app import render
from astra_kernels.app.compose import (
    Whereabouts,
    evaluator_at,
    fresh_seed,
    judge_elsewhere,
    require_openable,
    testing_agent,
)
from astra_kernels.app.live import watcher
from astra_kernels.app.modes import resolved
from astra_kernels.app.render import Judged
from astra_kernels.app.runs import Run, continue_run, read_run, show_notes, start_run
from astra_kernels.baseline import lay_groundwork, require_sound_baseline
from astra_kernels.errors import AstraError, MachineFault, UserError
from astra_kernels.evaluation.confirm import second_look
from astra_kernels.importers.problem_dir import load_candidate, load_problem
from astra_kernels.jobs.spool import Spool
from astra_kernels.records.candidate import Candidate
from astra_kernels.records.confirmation import SecondLook, conclude
from astra_kernels.records.evaluation import Evaluation, Passed
from astra_kernels.records.problem import Problem
from astra_kernels.records.run import Budget, RunConfig
from astra_kernels.records.workload import Workload

_EXIT_OK, _EXIT_NOT_PASSED, _EXIT_INTERRUPTED = 0, 1, 130


@dataclass(frozen=True)
class OptimizeRequest:
    """What the command line says about a new run; None leaves the choice to `settings`."""

    problem: Path
    baseline: str | None
    run: Path | None
    device: str | None
    settings: Mapping[str, object]
    """Fields of RunConfig."""
    budget: Mapping[str, object]
    """Fields of Budget."""
    where: Whereabouts

    def config(self) -> RunConfig:
        """The resolved configuration, as it is saved in the run.

        Raises:
            UserError: for a value out of range, naming the option, or a mode without its model.
        """
        given = {k: v for k, v in self.settings.items() if v is not None}
        try:
            config = resolved(given, device=self.device or self.where.default_device())
            return config.model_copy(update={"budget": Budget.model_validate(dict(self.budget))})
        except ValidationError as error:
            first = error.errors()[0]
            named = [str(part) for part in first["loc"] if part != "[key]"]
            option = ".".join(named).replace("_", "-")
            raise UserError(f"--{option}: {first['msg']}, not {first['input']!r}") from None


@dataclass(frozen=True)
class JudgeRequest:
    """What the command line says about candidates to judge."""

    problem: Path
    candidates: tuple[Path, ...]
    baseline: str | None
    device: str | None
    where: Whereabouts
    seed: int = 0
    safety: bool = False


def optimize(request: OptimizeRequest, *, as_json: bool) -> int:
    """Start a run and see it through."""
    if request.where.spool is not None:
        Spool.create(request.where.spool)  # before there is a run that could not go on
    config = request.config()
    require_openable(config)
    directory = start_run(request.problem, request.baseline, config, request.run)
    return _see_through(directory, request.where, as_json=as_json, resumed=False)


def resume(directory: Path, where: Whereabouts, *, as_json: bool) -> int:
    """Go on with a run, whose jobs may run elsewhere than before."""
    return _see_through(directory, where, as_json=as_json, resumed=True)


def _see_through(directory: Path, where: Whereabouts, *, as_json: bool, resumed: bool) -> int:
    print(f"run: {directory}", file=sys.stderr)
    try:
        with watcher(quiet=as_json) as watch:
            run = continue_run(directory, watch, where, resumed=resumed)
    except KeyboardInterrupt:
        again = f"astra optimize --resume {directory}{where.option()}"
        print(f"astra: interrupted; go on with: {again}", file=sys.stderr)
        return _EXIT_INTERRUPTED
    except AstraError as error:
        _reraise_with_advice(error, directory, where)
    _show(run, as_json=as_json)
    return _EXIT_OK


def _reraise_with_advice(error: AstraError, directory: Path, where: Whereabouts) -> NoReturn:
    if error.exit_code in (3, 4) and "--resume" not in str(error):
        again = f"astra optimize --resume {directory}{where.option()}"
        raise type(error)(f"{error}; then go on with: {again}") from None
    raise error


def replay_run(directory: Path) -> int:
    """Run a recorded run again and say where it parts from the record."""
    from astra_kernels.app.replays import replay

    replayed = replay(directory)
    if replayed.divergence:
        print(replayed.divergence)
        print("the run decides otherwise today")
        return _EXIT_NOT_PASSED
    print(f"{len(replayed.recorded)} recorded events: the run decides the same today")
    return _EXIT_OK


def show(directory: Path, *, as_json: bool) -> int:
    """Show a run."""
    _show(read_run(directory, words=False), as_json=as_json)
    return _EXIT_OK


def _show(run: Run, *, as_json: bool) -> None:
    print(render.run_json(run)) if as_json else render.run(run)


def verify(request: JudgeRequest, *, as_json: bool) -> int:
    """Judge candidates without timing them."""
    problem = load_problem(request.problem, request.baseline)
    untimed = _untimed(problem.workloads)
    return _judge(request, problem.model_copy(update={"workloads": untimed}), as_json=as_json)


def bench(request: JudgeRequest, *, as_json: bool) -> int:
    """Judge and time candidates; without any, the baseline against itself."""
    problem = load_problem(request.problem, request.baseline)
    return _judge(request, problem, as_json=as_json)


def _judge(request: JudgeRequest, problem: Problem, *, as_json: bool) -> int:
    if request.seed < 0:
        raise UserError(f"--seed: a seed cannot be negative, not {request.seed}")
    show_notes(problem)
    named = [(str(p), load_candidate(problem, p)) for p in request.candidates]
    device = request.device or request.where.default_device()
    judged: list[Judged] = []
    with evaluator_at(
        request.where, problem, device, request.problem, safety=request.safety
    ) as evaluator:

        def evaluate(candidate: Candidate, workloads: tuple[Workload, ...]) -> Evaluation:
            return evaluator.evaluate(candidate, workloads, request.seed, "confirm")

        proposals = testing_agent().propose(problem) if named else ()
        ground = lay_groundwork(problem, proposals, lambda w: evaluate(problem.baseline, w))
        require_sound_baseline(problem, ground.evaluation)
        if not named:
            judged.append(Judged("baseline", problem.baseline, ground.evaluation))
        else:
            workloads = (*problem.workloads, *ground.accepted)
            candidates = [candidate for _, candidate in named]
            evaluations = evaluator.evaluate_all(candidates, workloads, request.seed, "confirm")
            judged += [Judged(n, c, e) for (n, c), e in zip(named, evaluations, strict=True)]
    if as_json:
        print(render.judged_json(problem, judged))
    else:
        render.judged(problem, judged)
    passed = all(isinstance(j.evaluation, Passed) for j in judged)
    return _EXIT_OK if passed else _EXIT_NOT_PASSED


def confirm(request: JudgeRequest, *, as_json: bool) -> int:
    """Look at one candidate as an optimisation looks at its winner: with seeds that nobody could have known."""
    problem = load_problem(request.problem, request.baseline)
    show_notes(problem)
    (path,) = request.candidates
    candidate = load_candidate(problem, path)
    device = request.device or request.where.default_device()
    with evaluator_at(request.where, problem, device, request.problem, safety=True) as evaluator:

        def judge(judged: Candidate, workloads: tuple[Workload, ...]) -> Evaluation:
            return evaluator.evaluate(judged, workloads, fresh_seed(), "confirm")

        try:
            ground = lay_groundwork(
                problem,
                testing_agent().propose(problem),
                lambda w: judge(problem.baseline, _untimed(w)),
            )
            require_sound_baseline(problem, ground.evaluation)
            elsewhere = judge_elsewhere(evaluator, request.where, device)
            workloads = (*problem.workloads, *ground.accepted)
            look = second_look(problem, candidate, workloads, judge, elsewhere)
        except MachineFault as fault:
            look = SecondLook(evaluation=None, trouble=(f"the machine failed: {fault}",))
    if as_json:
        print(render.second_look_json(problem, str(path), candidate, look))
    else:
        render.second_look(problem, str(path), candidate, look)
    return _EXIT_OK if conclude(look).verdict == "confirmed" else _EXIT_NOT_PASSED


def _untimed(workloads: tuple[Workload, ...]) -> tuple[Workload, ...]:
    return tuple(w.model_copy(update={"timed": False}) for w in workloads)
