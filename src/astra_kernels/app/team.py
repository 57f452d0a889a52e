"""Who plays the four roles. Language models and their libraries are imported only where a run asks for one."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from astra_kernels.agents.rules.coding import RuleCoder
from astra_kernels.agents.rules.planning import RulePlanner
from astra_kernels.agents.rules.profiling import RuleProfiler
from astra_kernels.agents.rules.testing import RuleTester
from astra_kernels.errors import RunError
from astra_kernels.protocols import CodingAgent, Strategy
from astra_kernels.records.journal import Journal
from astra_kernels.records.problem import Problem
from astra_kernels.records.run import RunConfig
from astra_kernels.rounds import Team
from astra_kernels.search import Beam, Linear

if TYPE_CHECKING:
    from astra_kernels.models.opening import Models, Surroundings


_JUDGED, _RANKED = 3, 6
"""Variants by rewriting of every candidate of a model: where each is judged, and where a screening device ranks them first."""


@dataclass(frozen=True)
class Engagement:
    """What a team is engaged for."""

    problem: Problem
    config: RunConfig
    """As the run has it, but for the models, which a replay answers for."""
    data_root: Path
    """Where the problem's files lie."""
    notes: str = ""
    """What planners hear of earlier runs."""


@contextmanager
def team_of(engaged: Engagement, journal: Journal) -> Iterator[Team]:
    """The four roles and the strategy; what they have asked is called off at the end.

    Raises:
        UserError: a model's name cannot be read, or a budget in dollars could not be held.
        ModelRejected: no such provider, or a key is missing.
        SetupError: the library of a provider, or a command, is not installed.
    """
    require_own_agents(engaged.config)
    if engaged.config.agents == "rules":
        yield _rules(engaged)
        return
    from astra_kernels.models.opening import open_models

    with open_models(engaged.config, journal, _surroundings(engaged.config)) as models:
        yield with_models(engaged, models)


def require_own_agents(config: RunConfig) -> None:
    """Refuse a run in which somebody else decided.

    Raises:
        RunError: saying so.
    """
    if config.agents == "outside":
        raise RunError(
            "an outside agent decided in this run, through astra mcp: it can be shown and reported, not resumed or replayed"
        )


def require_models(config: RunConfig) -> None:
    """Open the models of a run and close them again, before anything is written.

    Raises:
        AstraError: as `team_of` does.
    """
    if config.agents == "rules":
        return
    from astra_kernels.models.opening import open_models
    from astra_kernels.records.history import History

    nowhere = Journal(History(), lambda event: None)
    with open_models(config, nowhere, _surroundings(config)):
        pass


def _surroundings(config: RunConfig) -> Surroundings:
    from astra_kernels.app.runs import read_history
    from astra_kernels.models.limits import Limits
    from astra_kernels.models.opening import Surroundings
    from astra_kernels.models.prices import Price

    names = {config.model, *config.models.values()} - {None}
    prices = {str(name): Price(*config.price) for name in names} if config.price else {}
    return Surroundings(os.environ, read_history, limits=Limits(prices=prices), tell=_tell)


def strategy_of(config: RunConfig) -> Strategy:
    """Who decides where to search."""
    if config.strategy == "beam":
        return Beam(config.budget, width=config.beam)
    return Linear(config.budget, keep_best=config.keep_best)


def _rules(engaged: Engagement) -> Team:
    return Team(
        testing=RuleTester(),
        profiling=RuleProfiler(),
        planning=RulePlanner(),
        coding=RuleCoder(engaged.problem),
        strategy=strategy_of(engaged.config),
    )


def with_models(engaged: Engagement, models: Models) -> Team:
    """The team of a run whose models are open."""
    from astra_kernels.agents.llm.coding import LlmCoder
    from astra_kernels.agents.llm.hybrid import HybridCoder
    from astra_kernels.agents.llm.planning import LlmPlanner
    from astra_kernels.agents.llm.profiling import LlmProfiler
    from astra_kernels.agents.llm.single import SingleAgent
    from astra_kernels.agents.llm.testing import LlmTester

    problem, config = engaged.problem, engaged.config
    strategy = strategy_of(config)
    if config.agents == "single":
        versions = config.candidates_per_round // config.plans_per_round
        one = SingleAgent(problem, models("coding"), candidates=versions, notes=engaged.notes)
        return Team(LlmTester(models("testing")), one, one, one, strategy)
    coder: CodingAgent = LlmCoder(problem, models("coding"))
    if config.agents == "hybrid":
        coder = HybridCoder(problem, coder, variants=_RANKED if config.screen else _JUDGED)
    return Team(
        testing=LlmTester(models("testing")),
        profiling=LlmProfiler(problem, models("profiling")),
        planning=LlmPlanner(
            problem, models("planning"), plans=max(3, config.plans_per_round), notes=engaged.notes
        ),
        coding=coder,
        strategy=strategy,
    )


def _tell(note: str) -> None:
    print(f"note: {note}", file=sys.stderr, flush=True)
