"""Stands between the agents and a model: writes down, charges, asks again, and stops at the budget."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Self

from pydantic_ai.messages import ModelMessage, ModelResponse
from pydantic_ai.models import Model, ModelRequestParameters, StreamedResponse
from pydantic_ai.models.wrapper import WrapperModel
from pydantic_ai.settings import ModelSettings

from astra_kernels.errors import ModelFault, UserError
from astra_kernels.models.asking import Asking, Terms, as_response, output_limit, sent_settings
from astra_kernels.models.backend import Backend
from astra_kernels.models.event_loop import RequestLoop
from astra_kernels.models.ledger_gate import LedgerGate
from astra_kernels.models.limits import Limits
from astra_kernels.models.prices import Tariff
from astra_kernels.models.secrets import Secrets
from astra_kernels.models.transcript import transcript
from astra_kernels.records.model_calls import Failed, Role, request_key


def _silent(note: str) -> None:
    """Nobody listens."""


@dataclass
class Meter:
    """Meters every model of one run. Its models may be asked from several threads at once."""

    gate: LedgerGate
    secrets: Secrets
    limits: Limits = field(default_factory=Limits)
    tell: Callable[[str], None] = _silent
    """Told what the user should hear."""
    loop: RequestLoop = field(default_factory=RequestLoop)
    _connected: list[Model] = field(default_factory=list)

    def wrap(self, backend: Backend, role: Role) -> Model:
        """The model that a role's agent is given.

        Raises:
            UserError: the budget is in dollars and nobody knows what this model costs.
        """
        flat = self.limits.prices.get(backend.name, backend.price)
        tariff = Tariff(backend.model, flat)
        if not any(model is backend.model for model in self._connected):
            self._connected.append(backend.model)
            self.loop.last.append(lambda: _disconnect(backend.model))
        if self.gate.budget.usd is not None and not tariff.known:
            raise UserError(
                f"{backend.name}: its price is not known, so that a budget in dollars cannot be held; "
                "give it with --price IN OUT, or bound tokens instead"
            )
        return _MeteredModel(
            Terms(backend, role, self.gate, self.limits, tariff, self.secrets), self
        )


async def _disconnect(model: Model) -> None:
    """Close a provider's connections: leaving a model does."""
    async with model:
        pass


class _MeteredModel(WrapperModel):
    """One role's way to one model."""

    def __init__(self, terms: Terms, meter: Meter) -> None:
        super().__init__(terms.backend.model)
        self._terms = terms
        self._meter = meter

    async def request(
        self,
        messages: list[ModelMessage],
        model_settings: ModelSettings | None,
        model_request_parameters: ModelRequestParameters,
    ) -> ModelResponse:
        """Answer as the interrupted round's recording does where it can be, else ask.

        Raises:
            BudgetSpent: the next try could go over a limit.
            ModelRejected: whatever is asked is refused.
            ModelFault: there is no usable answer, however often it was asked.
        """
        terms = self._terms
        told = transcript(messages, model_request_parameters)
        recalled = terms.gate.recall(request_key(terms.role, told))
        if isinstance(recalled, Failed):
            raise ModelFault(recalled.told)
        if recalled is not None:
            return as_response(recalled, terms.backend)
        most = output_limit(model_settings, terms.limits)
        asking = Asking(terms, told, most)
        try:
            return await self._meter.loop.run(
                asking.answer(
                    self.wrapped.prepare_messages(messages, model_request_parameters),
                    sent_settings(model_settings, most, terms.backend),
                    model_request_parameters,
                )
            )
        finally:
            for note in asking.notes:
                self._meter.tell(note)

    def prepare_messages(
        self,
        messages: list[ModelMessage],
        model_request_parameters: ModelRequestParameters | None = None,
    ) -> list[ModelMessage]:
        """As they are: the record of a request does not depend on the provider. `request` prepares what is sent."""
        return messages

    @asynccontextmanager
    async def request_stream(self, *args: Any, **kwargs: Any) -> AsyncGenerator[StreamedResponse]:
        """Nothing streams: an answer counts when it is whole."""
        raise NotImplementedError("metered models do not stream")
        yield

    def _refresh_http_client(self) -> None:
        """Connections belong to the loop of the requests, and outlive an agent."""

    async def __aenter__(self) -> Self:
        """Leave the connections alone, as `_refresh_http_client` does."""
        return self

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc_val: BaseException | None,
        exc_tb: TracebackType | None,
    ) -> bool | None:
        """Leave the connections alone."""
        return None
