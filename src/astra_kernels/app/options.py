"""Options of verbs, and exit codes. Standard library and cyclopts only, so that `--help` is quick."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

from cyclopts import Group, Parameter

EXIT_OK, EXIT_NOT_PASSED, EXIT_USER, EXIT_MACHINE, EXIT_FAULT, EXIT_INTERRUPTED = 0, 1, 2, 4, 5, 130

_MODELS = Group("Models", sort_key=1)
_SEARCH = Group("Search", sort_key=2)
_BUDGET = Group("Budget", sort_key=3, help="Limits that hold across resumes.")


ExportFormat = Literal["patch", "flashinfer-bench"]


@Parameter(name="*")
@dataclass(frozen=True)
class ExportOptions:
    """What an export may take for granted, and what it is told besides.

    Args:
        modelled: Accept a winner whose times are modelled; the text says so.
        moved: Accept originals that lie elsewhere in the tree, with the same content.
        test: Command line of the framework's own test; it runs in a patched copy of the tree.
        test_seconds: Its deadline.
        trace: A Chrome trace of torch.profiler, for the operator's share of a serving run.
        engagement: The report of an earlier export's check_engagement.py.
    """

    modelled: Annotated[bool, Parameter(negative="")] = False
    moved: Annotated[bool, Parameter(negative="")] = False
    test: str | None = None
    test_seconds: float = 1800.0
    trace: Path | None = None
    engagement: Path | None = None


@Parameter(name="*", group=_MODELS)
@dataclass(frozen=True)
class ModelOptions:
    """Who does the work.

    Args:
        model: Who answers: a provider's model such as `anthropic:NAME`, `cli:COMMAND`, `manual:DIR` or `replay:RUN`.
        models: Another model for a role: `--models.coding NAME`; roles are testing, profiling, planning, coding.
        agents: Default: `multi` with a model, `rules` without.
        price: US dollars for a million tokens, input and output, where the bundled prices lack the model: `--price 3 15`.
        memory: Tell planners what came of techniques in earlier runs, and remember this one.
    """

    model: str | None = None
    models: dict[str, str] | None = None
    agents: Literal["rules", "multi", "single", "hybrid"] | None = None
    price: tuple[float, float] | None = None
    memory: bool = True


@Parameter(name="*", group=_SEARCH)
@dataclass(frozen=True)
class SearchOptions:
    """How the search goes on.

    Args:
        strategy: `beam` starts a round from several of the fastest; `linear` is the paper's one line of versions.
        beam: How many candidates a round of `beam` starts from.
        plans_per_round: Plans that are carried out in one round; the default depends on agents and strategy.
        candidates_per_round: Candidates that are judged in one round; the default depends on agents and strategy.
        repairs: How often a model may mend a candidate that failed.
        screen: A simulated device such as `sim:h200` that candidates have to pass before they are judged on a GPU.
        replace_always: With `linear`, start from the newest candidate even if it failed, as the paper does.
    """

    strategy: Literal["beam", "linear"] = "beam"
    beam: int = 2
    plans_per_round: int | None = None
    candidates_per_round: int | None = None
    repairs: int = 1
    screen: str | None = None
    replace_always: Annotated[bool, Parameter(negative="")] = False


@Parameter(name="*", group=_BUDGET)
@dataclass(frozen=True)
class BudgetOptions:
    """Where the search ends at the latest.

    Args:
        rounds: Rounds.
        candidates: Candidates that are judged.
        seconds: Seconds of work.
        requests: Requests to models.
        tokens: Tokens of models, input and output together.
        usd: US dollars for models.
    """

    rounds: int = 5
    candidates: int | None = None
    seconds: float | None = None
    requests: int | None = None
    tokens: int | None = None
    usd: float | None = None


# Options that several verbs have.
DeviceOption = Annotated[
    str | None,
    Parameter(
        help="`cuda:N` or a simulated GPU such as `sim:h200`; default: `cuda:0` if there is one, else `sim:h200`."
    ),
]
BaselineOption = Annotated[
    str | None,
    Parameter(
        help="Baseline as `FILE.cu::function`, a solution.json, or its directory; default: PROBLEM/baseline."
    ),
]
JsonOption = Annotated[
    bool, Parameter(name="--json", negative="", help="Print JSON on standard output.")
]
EvaluatorOption = Annotated[
    str,
    Parameter(
        help="Where jobs run: `local`, or `spool:DIR`, which writes them to DIR for `astra worker --spool DIR` on another"
        " machine; the device is then that machine's, by default `cuda:0`."
    ),
]
SpoolTimeoutOption = Annotated[
    float | None,
    Parameter(help="Seconds to wait for one result of a spool; default: for ever."),
]
SeedOption = Annotated[int, Parameter(help="Seed of the inputs.")]
