"""One request, from the first try to an answer or to giving up: written down, bounded in time and charged."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass, field, replace
from itertools import count
from typing import get_args

from pydantic_ai.messages import FinishReason, ModelMessage, ModelResponse, TextPart
from pydantic_ai.models import ModelRequestParameters
from pydantic_ai.settings import ModelSettings
from pydantic_ai.usage import RequestUsage

from astra_kernels.errors import AstraError, BudgetSpent, ModelFault, ModelRejected
from astra_kernels.models.backend import Backend
from astra_kernels.models.ledger_gate import LedgerGate
from astra_kernels.models.limits import Limits
from astra_kernels.models.mishaps import Mishap
from astra_kernels.models.prices import Tariff
from astra_kernels.models.secrets import Secrets
from astra_kernels.models.transcript import estimated_tokens, most_input_tokens, storable
from astra_kernels.records.model_calls import Answered, Asked, Charge, Failed, Message, Role, Usage

_DETAIL_CHARACTERS = 1000
_LOOK_AGAIN_S = 0.05
_MOST_BYTES_PER_TOKEN = 64
"""An answer longer than this for every token it was allowed is not one that kept to its limit."""


@dataclass(frozen=True)
class Terms:
    """On what terms one role may ask one model."""

    backend: Backend
    role: Role
    gate: LedgerGate
    limits: Limits
    tariff: Tariff
    secrets: Secrets


@dataclass
class Asking:
    """A request on its way."""

    terms: Terms
    transcript: tuple[Message, ...]
    max_output_tokens: int
    notes: list[str] = field(default_factory=list)
    """What the user should hear of it."""

    async def answer(
        self,
        messages: list[ModelMessage],
        settings: ModelSettings,
        parameters: ModelRequestParameters,
    ) -> ModelResponse:
        """Send the request until there is an answer.

        Raises:
            BudgetSpent: the next try could go over a limit.
            ModelRejected: whatever is asked is refused.
            ModelFault: there is no usable answer, however often it was asked.
        """
        terms, patience = self.terms, self.terms.limits.patience
        waited_s, unusable = 0.0, 0
        for attempt in count(1):
            asked = await self._admitted(attempt)
            started = time.monotonic()
            try:
                async with asyncio.timeout(self._deadline_s()):
                    response = await terms.backend.model.request(messages, settings, parameters)
            except asyncio.CancelledError:
                terms.gate.lost(asked)
                raise
            except (
                Exception
            ) as error:  # a provider's library may raise anything; the reason is kept
                mishap = self._mishap(error)
                charge = asked.reserved if mishap.billed else Charge()
            else:
                text = self._readable(response)
                usage, charge = self._cost(response.usage, text)
                if text.strip():
                    return self._take(asked, response, text, usage, charge, started)
                reason = response.finish_reason or "no reason given"
                mishap = Mishap("unusable", f"an answer without any text ({reason})", True, "once")
            detail = terms.secrets.scrub(storable(mishap.detail))[:_DETAIL_CHARACTERS]
            unusable += mishap.again == "once"
            wait_s = patience.wait_s(attempt, mishap.retry_after_s)
            last = (
                mishap.again == "never"
                or unusable > 1
                or attempt >= patience.tries
                or waited_s + wait_s > patience.total_wait_s
            )
            terms.gate.failed(
                Failed(
                    call=asked.call,
                    kind=mishap.kind,
                    detail=detail,
                    charged=charge,
                    told=self._told(mishap, detail, attempt) if last else "",
                    seconds=time.monotonic() - started,
                )
            )
            if last:
                raise self._end(mishap, detail, attempt) from None
            waited_s += wait_s
            left_s = terms.gate.seconds_left
            await patience.sleep(wait_s if left_s is None else min(wait_s, left_s))
        raise AssertionError("the tries are bounded")

    def _mishap(self, error: Exception) -> Mishap:
        """What went wrong, in the light of what the model has answered before."""
        mishap, terms = Mishap.of(error), self.terms
        alone = mishap.perhaps_alone and terms.gate.was_answered(terms.backend.name)
        return replace(mishap, account=False) if alone else mishap

    async def _admitted(self, attempt: int) -> Asked:
        """The request, written down: at once, or when requests in flight have left room for it."""
        while (asked := self.terms.gate.ask(self._request(attempt))) is None:
            await asyncio.sleep(_LOOK_AGAIN_S)
        return asked

    def _deadline_s(self) -> float | None:
        """Seconds that one try may take: as the backend says, and no more than the run has left."""
        limits = (self.terms.backend.deadline_s, self.terms.gate.seconds_left)
        return min((s for s in limits if s is not None), default=None)

    def _request(self, attempt: int) -> Asked:
        """The request as it is written down; the gate numbers it."""
        terms = self.terms
        input_tokens = most_input_tokens(self.transcript) + terms.backend.own_tokens
        return Asked(
            call=1,
            round=0,
            role=terms.role,
            model=terms.backend.name,
            attempt=attempt,
            messages=self.transcript,
            max_output_tokens=self.max_output_tokens,
            reserved=Charge(
                tokens=input_tokens + self.max_output_tokens,
                usd=terms.tariff.ceiling(input_tokens, self.max_output_tokens),
            ),
        )

    def _readable(self, response: ModelResponse) -> str:
        """The answer's text, without keys, and not longer than its limit of tokens can explain."""
        text = self.terms.secrets.scrub_answer(storable(response.text or ""))
        most = self.max_output_tokens * _MOST_BYTES_PER_TOKEN
        if len(text) > most:
            response.finish_reason = "length"
            return text[:most]
        return text

    def _cost(self, reported: RequestUsage, text: str) -> tuple[Usage, Charge]:
        """Tokens as reported, or counted from the texts where the model reports none that can be; and their price."""
        asked_tokens = estimated_tokens([m.text for m in self.transcript])
        answered_tokens = estimated_tokens([text])
        estimated = reported.input_tokens <= 0 or (reported.output_tokens <= 0 and bool(text))
        estimated = estimated or reported.output_tokens < 0
        usage = Usage(
            input_tokens=reported.input_tokens if reported.input_tokens > 0 else asked_tokens,
            output_tokens=reported.output_tokens if reported.output_tokens > 0 else answered_tokens,
            estimated=estimated,
        )
        priced = (
            RequestUsage(input_tokens=usage.input_tokens, output_tokens=usage.output_tokens)
            if estimated
            else reported
        )
        tokens = usage.input_tokens + usage.output_tokens
        return usage, Charge(tokens=tokens, usd=self.terms.tariff.cost(priced))

    def _take(
        self,
        asked: Asked,
        response: ModelResponse,
        text: str,
        usage: Usage,
        charge: Charge,
        started: float,
    ) -> ModelResponse:
        """Write the answer down and hand it to the agent."""
        answer = Answered(
            call=asked.call,
            text=text,
            usage=usage,
            charged=charge,
            finish=response.finish_reason or "",
            seconds=time.monotonic() - started,
        )
        self.terms.gate.answered(answer)
        if charge.tokens > asked.reserved.tokens:
            self.notes.append(
                f"{asked.model}: call {asked.call} used {charge.tokens:,} tokens, more than the "
                f"{asked.reserved.tokens:,} that were set aside for it; all of them are charged"
            )
        return as_response(answer, self.terms.backend)

    def _told(self, mishap: Mishap, detail: str, tries: int) -> str:
        """What the agent is told, where the run goes on without an answer."""
        end = self._end(mishap, detail, tries)
        return str(end) if isinstance(end, ModelFault) else ""

    def _end(self, mishap: Mishap, detail: str, tries: int) -> AstraError:
        """What the agent is told after the last try."""
        name = self.terms.backend.name
        if mishap.spent:
            return BudgetSpent(detail)
        if mishap.told:
            kind = ModelRejected if mishap.account else ModelFault
            return kind(self.terms.secrets.scrub(storable(mishap.detail)))
        if mishap.account:
            return ModelRejected(f"{name}: {detail}; see docs/models.md for names and keys")
        again = "" if tries == 1 else f" after {tries} tries"
        return ModelFault(f"{name}: no usable answer{again}: {mishap.kind}: {detail}")


def as_response(answer: Answered, backend: Backend) -> ModelResponse:
    """An answer of the log in pydantic-ai's terms; the same for a new one and for one that is given again."""
    finish: FinishReason | None = next(
        (reason for reason in get_args(FinishReason) if reason == answer.finish), None
    )
    return ModelResponse(
        parts=[TextPart(answer.text)],
        usage=RequestUsage(
            input_tokens=answer.usage.input_tokens, output_tokens=answer.usage.output_tokens
        ),
        model_name=backend.model.model_name,
        finish_reason=finish,
    )


def output_limit(settings: ModelSettings | None, limits: Limits) -> int:
    """Tokens that an answer may have: what the agent asks for, or the limit of every request."""
    return (settings or {}).get("max_tokens") or limits.max_output_tokens


def sent_settings(
    settings: ModelSettings | None, max_output_tokens: int, backend: Backend
) -> ModelSettings:
    """What goes to the provider: the agent's settings, the limits, and no retries but the meter's own."""
    unsupported = backend.model.unsupported_settings
    bounds = ModelSettings(max_tokens=max_output_tokens)
    if "max_retries" not in unsupported:
        bounds["max_retries"] = 0
    if backend.deadline_s is not None and "timeout" not in unsupported:
        bounds["timeout"] = backend.deadline_s
    return {**(settings or ModelSettings()), **bounds}
