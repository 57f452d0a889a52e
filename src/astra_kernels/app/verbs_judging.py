"""Verbs that run kernels: the search, and judgements of single candidates."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from astra_kernels.app.options import (
    EXIT_USER,
    BaselineOption,
    BudgetOptions,
    DeviceOption,
    EvaluatorOption,
    JsonOption,
    ModelOptions,
    SearchOptions,
    SeedOption,
    SpoolTimeoutOption,
)


def optimize(
    problem: Path | None = None,
    *,
    device: DeviceOption = None,
    baseline: BaselineOption = None,
    models: ModelOptions = ModelOptions(),  # noqa: B008 - frozen
    search: SearchOptions = SearchOptions(),  # noqa: B008
    budget: BudgetOptions = BudgetOptions(),  # noqa: B008
    run: Path | None = None,
    resume: Path | None = None,
    seed: SeedOption = 0,
    evaluator: EvaluatorOption = "local",
    spool_timeout: SpoolTimeoutOption = None,
    json: JsonOption = False,
) -> int:
    """Search for a faster kernel: `astra optimize examples/silu_and_mul`.

    Without a model, rules plan and source rewrites carry out. With one (`--model anthropic:NAME`, `cli:claude`,
    `manual:DIR`), language models do.

    Args:
        problem: Problem directory.
        run: Directory for the run's log and results; default: runs/NAME-TIME.
        resume: Go on with this run, with the budget it was started with.
    """
    from astra_kernels.app import commands
    from astra_kernels.app.compose import Whereabouts

    if problem is None and resume is None:
        print("astra optimize: give a PROBLEM, or --resume RUN", file=sys.stderr)
        return EXIT_USER
    chosen = problem, device, baseline, models, search, budget, run, seed
    usual = None, None, None, ModelOptions(), SearchOptions(), BudgetOptions(), None, 0
    if resume is not None and chosen != usual:
        print(
            "astra optimize: --resume goes on with what the run was started with; give no PROBLEM, models, search or budget",
            file=sys.stderr,
        )
        return EXIT_USER
    where = Whereabouts.parse(evaluator, spool_timeout)
    if resume is not None:
        return commands.resume(resume, where, as_json=json)
    assert problem is not None
    settings = {**vars(models), **vars(search), "seed": seed}
    settings["keep_best"] = not settings.pop("replace_always")
    request = commands.OptimizeRequest(
        problem=problem,
        baseline=baseline,
        run=run,
        device=device,
        settings=settings,
        budget=vars(budget),
        where=where,
    )
    return commands.optimize(request, as_json=json)


def verify(
    problem: Path,
    candidate: Path,
    *,
    device: DeviceOption = None,
    baseline: BaselineOption = None,
    seed: SeedOption = 0,
    safety: Annotated[bool, Parameter(negative="")] = False,
    evaluator: EvaluatorOption = "local",
    spool_timeout: SpoolTimeoutOption = None,
    json: JsonOption = False,
) -> int:
    """Judge one candidate: does it build, is it admitted, correct and safe?

    Args:
        problem: Problem directory.
        candidate: A source file in place of the baseline's, a directory of sources, or a solution.json.
        safety: On a GPU, run it under compute-sanitizer's tools as well.
    """
    from astra_kernels.app import commands
    from astra_kernels.app.compose import Whereabouts

    where = Whereabouts.parse(evaluator, spool_timeout)
    request = commands.JudgeRequest(problem, (candidate,), baseline, device, where, seed, safety)
    return commands.verify(request, as_json=json)


def confirm(
    problem: Path,
    candidate: Path,
    *,
    device: DeviceOption = None,
    baseline: BaselineOption = None,
    evaluator: EvaluatorOption = "local",
    spool_timeout: SpoolTimeoutOption = None,
    json: JsonOption = False,
) -> int:
    """Is it correct, safe and faster? Judge one candidate as `optimize` judges its winner.

    New processes and inputs from seeds that are drawn now; several timing processes; the baseline against
    itself as a control; the safety tools; a second GPU where there is one. Ends with 0 when the candidate
    is confirmed, with 1 when it is refuted or nothing is established. On a simulated device it can be
    refuted, but a modelled time confirms nothing.

    Args:
        problem: Problem directory.
        candidate: A source file in place of the baseline's, a directory of sources, or a solution.json.
    """
    from astra_kernels.app import commands
    from astra_kernels.app.compose import Whereabouts

    where = Whereabouts.parse(evaluator, spool_timeout)
    request = commands.JudgeRequest(problem, (candidate,), baseline, device, where)
    return commands.confirm(request, as_json=json)


def bench(
    problem: Path,
    *candidates: Path,
    device: DeviceOption = None,
    baseline: BaselineOption = None,
    seed: SeedOption = 0,
    evaluator: EvaluatorOption = "local",
    spool_timeout: SpoolTimeoutOption = None,
    json: JsonOption = False,
) -> int:
    """Judge and time candidates against the baseline, interleaved; without candidates, the baseline against itself.

    Args:
        problem: Problem directory.
        candidates: Source files, directories of sources, or solution.json files.
    """
    from astra_kernels.app import commands
    from astra_kernels.app.compose import Whereabouts

    where = Whereabouts.parse(evaluator, spool_timeout)
    request = commands.JudgeRequest(problem, candidates, baseline, device, where, seed)
    return commands.bench(request, as_json=json)
