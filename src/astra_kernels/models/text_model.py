"""Whoever takes a text and gives a text, as a model of pydantic-ai."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass

from pydantic_ai.messages import FinishReason, ModelMessage, ModelResponse, TextPart
from pydantic_ai.models import Model, ModelRequestParameters
from pydantic_ai.settings import ModelSettings
from pydantic_ai.usage import RequestUsage

from astra_kernels.models.limits import MAX_OUTPUT_TOKENS
from astra_kernels.models.transcript import transcript
from astra_kernels.records.model_calls import Message

_BYTES_PER_TOKEN = 4


@dataclass(frozen=True)
class Reply:
    """A text, and what is known of how it came about."""

    text: str
    input_tokens: int = 0
    """0: not reported."""
    output_tokens: int = 0
    finish: FinishReason = "stop"


class TextModel(Model):
    """Base of models without a provider."""

    def __init__(self, name: str, system: str) -> None:
        super().__init__()
        self._name = name
        self._kind = system

    @property
    def model_name(self) -> str:
        """What the user called it."""
        return self._name

    @property
    def system(self) -> str:
        """What sort of model it is."""
        return self._kind

    async def request(
        self,
        messages: list[ModelMessage],
        model_settings: ModelSettings | None,
        model_request_parameters: ModelRequestParameters,
    ) -> ModelResponse:
        """Ask, and put the answer in pydantic-ai's terms."""
        max_tokens = (model_settings or {}).get("max_tokens", MAX_OUTPUT_TOKENS)
        reply = await self.reply(
            transcript(messages, model_request_parameters), max_tokens * _BYTES_PER_TOKEN
        )
        return ModelResponse(
            parts=[TextPart(reply.text)],
            usage=RequestUsage(input_tokens=reply.input_tokens, output_tokens=reply.output_tokens),
            model_name=self._name,
            finish_reason=reply.finish,
        )

    @abstractmethod
    async def reply(self, messages: tuple[Message, ...], most_bytes: int) -> Reply:
        """Answer a conversation with at most `most_bytes` of text."""
        raise NotImplementedError
