"""Opens models by name. Importing this costs nothing: pydantic-ai is loaded when a model is asked for.

PROVIDER:MODEL        any provider of pydantic-ai: openai:gpt-6.1-sol, anthropic:claude-sonnet-5-5, google:gemini-4-argon
openai:MODEL@URL      a server that speaks OpenAI's chat completions: vLLM, SGLang, Ollama
cli:COMMAND           a command that takes a prompt on standard input; cli:claude and cli:codex are known
manual:DIR            a person, or another program, who answers files
replay:RUN            a recorded run
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Self, get_args

from astra_kernels.errors import AstraError, ModelRejected, UserError
from astra_kernels.models.limits import Limits
from astra_kernels.models.secrets import Secrets
from astra_kernels.records.history import History
from astra_kernels.records.journal import Journal
from astra_kernels.records.model_calls import Role
from astra_kernels.records.run import RunConfig

if TYPE_CHECKING:
    from pydantic_ai.models import Model

    from astra_kernels.models.backend import Backend
    from astra_kernels.models.ledger_gate import LedgerGate
    from astra_kernels.models.manual import Desk
    from astra_kernels.models.meter import Meter
    from astra_kernels.models.replay import Recording

_CLI_TOKENS = 65536
"""Room for the instructions that a coding assistant adds to what it is asked."""


def _silent(note: str) -> None:
    """Nobody listens."""


@dataclass(frozen=True)
class Surroundings:
    """What opening a model needs of the outside."""

    environment: Mapping[str, str]
    read_run: Callable[[Path], History]
    """Reads a recorded run; it raises an AstraError when there is none."""
    limits: Limits = field(default_factory=Limits)
    tell: Callable[[str], None] = _silent
    """Told what the user should hear."""


class Models:
    """The models of one run: called with a role, it gives the model of that role's agent.

    Close it, or use it as a context manager, so that requests in flight are called off.
    """

    def __init__(self, meter: Meter, models: Mapping[Role, Model]) -> None:
        self._meter = meter
        self._models = models

    def __call__(self, role: Role) -> Model:
        """The metered model of a role.

        Raises:
            UserError: the run names none for it.
        """
        if role not in self._models:
            raise UserError(f"no model for the {role} agent; give --model")
        return self._models[role]

    def close(self) -> None:
        """Call off what is in flight."""
        self._meter.loop.close()

    def __enter__(self) -> Self:
        """Nothing to open."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Close it."""
        self.close()


def open_models(config: RunConfig, journal: Journal, around: Surroundings) -> Models:
    """Open the models that a run names, metered against its budget.

    Raises:
        ModelRejected: no such provider, or a key is missing.
        SetupError: the library of a provider, or a command, is not installed.
        UserError: a name cannot be read, or a budget in dollars could not be held.
    """
    from astra_kernels.models.ledger_gate import LedgerGate
    from astra_kernels.models.meter import Meter

    secrets = Secrets(around.environment)
    gate = LedgerGate(journal, config.budget)
    meter = Meter(gate, secrets, around.limits, around.tell)
    opener = _Opener(around, journal, gate)
    models: dict[Role, Model] = {}
    for role in get_args(Role):
        name = config.models.get(role) or config.model
        if name is not None:
            if secrets.scrub_answer(name) != name:
                raise UserError(
                    f"{secrets.scrub_answer(name)}: names of models are recorded; leave keys in the environment"
                )
            try:
                models[role] = meter.wrap(opener.open(name, role), role)
            except AstraError as error:
                raise type(error)(secrets.scrub(str(error))) from None
    return Models(meter, models)


class _Opener:
    """Opens names; what the roles share is opened once."""

    def __init__(self, around: Surroundings, journal: Journal, gate: LedgerGate) -> None:
        self._around = around
        self._journal = journal
        self._gate = gate
        self._desks: dict[str, Desk] = {}
        self._recordings: dict[str, Recording] = {}
        self._shared: dict[str, Backend] = {}

    def open(self, name: str, role: Role) -> Backend:
        """Open one name for one role."""
        kind, colon, rest = name.partition(":")
        if not colon or not rest:
            raise UserError(
                f"{name}: a model is PROVIDER:MODEL, openai:MODEL@URL, cli:COMMAND, manual:DIR or replay:RUN"
            )
        match kind:
            case "manual":
                return self._manual(name, rest, role)
            case "replay":
                return self._replay(name, rest, role)
        if name not in self._shared:
            self._shared[name] = (
                self._command(name, rest) if kind == "cli" else self._provider(name)
            )
        return self._shared[name]

    def _provider(self, name: str) -> Backend:
        from astra_kernels.models.backend import Backend
        from astra_kernels.models.providers import provider_model

        with warnings.catch_warnings():
            warnings.simplefilter(
                "ignore"
            )  # of providers that are on their way out; the user chose this one
            model = provider_model(name, self._around.environment)
        return Backend(name, model, deadline_s=self._around.limits.request_s)

    def _command(self, name: str, command: str) -> Backend:
        from astra_kernels.models.backend import Backend
        from astra_kernels.models.command_line import Command, CommandModel
        from astra_kernels.models.prices import FREE

        environment = self._around.environment
        read = Command.read(command, environment.get("PATH"))
        return Backend(
            name,
            CommandModel(name, read, environment),
            price=FREE,
            deadline_s=self._around.limits.request_s,
            own_tokens=0 if read.format == "text" else _CLI_TOKENS,
        )

    def _manual(self, name: str, directory: str, role: Role) -> Backend:
        from astra_kernels.models.backend import Backend
        from astra_kernels.models.manual import Desk, ManualModel
        from astra_kernels.models.prices import FREE

        desk = self._desks.setdefault(name, Desk(Path(directory)))
        model = ManualModel(name, desk, role, self._around.limits.manual_s)
        return Backend(name, model, price=FREE)

    def _replay(self, name: str, directory: str, role: Role) -> Backend:
        from astra_kernels.models.backend import Backend
        from astra_kernels.models.prices import FREE
        from astra_kernels.models.replay import Recording, ReplayModel

        if name not in self._recordings:
            recorded = self._around.read_run(Path(directory))
            config = recorded.config
            if not recorded.ledger.asked and (config is None or config.agents == "rules"):
                raise ModelRejected(f"{name}: the run asked no language model")
            self._recordings[name] = Recording.of(name, recorded, self._journal.history.ledger)
        model = ReplayModel(name, self._recordings[name], role, lambda: self._gate.round)
        return Backend(name, model, price=FREE)
