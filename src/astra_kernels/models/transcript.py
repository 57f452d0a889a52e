"""A conversation as the run keeps it: who said what, in plain text that can be stored."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from pydantic_ai.messages import (
    ModelMessage,
    ModelRequest,
    ModelResponse,
    RetryFeedbackPart,
    SystemPromptPart,
    ToolReturnPart,
    UserPromptPart,
)
from pydantic_ai.models import ModelRequestParameters

from astra_kernels.records.model_calls import Message

_TOKENS_PER_MESSAGE = 32
"""Room for the marks that a chat template sets around a message."""
_TOKENS_PER_REQUEST = 1024
"""Room for what pydantic-ai and a provider may add to a request of their own accord."""
_BYTES_PER_TOKEN = 4


def storable(text: str) -> str:
    """The text with lone surrogates replaced, so that it can be encoded."""
    return text.encode("utf-8", "replace").decode()


def transcript(
    messages: Sequence[ModelMessage], parameters: ModelRequestParameters
) -> tuple[Message, ...]:
    """What a model is told, oldest first, in words that do not depend on the provider."""
    turns = [
        Message(author="system", text=storable(text))
        for text in _instructions(messages, parameters)
    ]
    for message in messages:
        if isinstance(message, ModelResponse):
            turns.append(Message(author="assistant", text=storable(message.text or "")))
        else:
            turns += _request_turns(message)
    return tuple(turns)


def most_input_tokens(messages: Sequence[Message]) -> int:
    """More tokens than a request can have: no tokenizer makes more of a text than it has bytes in UTF-8."""
    return _TOKENS_PER_REQUEST + sum(_TOKENS_PER_MESSAGE + len(m.text.encode()) for m in messages)


def estimated_tokens(texts: Sequence[str]) -> int:
    """About four bytes a token, which holds for English and for code."""
    return -(-sum(len(text.encode("utf-8", "replace")) for text in texts) // _BYTES_PER_TOKEN)


def as_prompt(messages: Sequence[Message]) -> str:
    """A conversation as one text, for who takes a single prompt; a single turn stays as it is."""
    asked = [m for m in messages if m.author != "system"]
    if len(asked) == 1:
        return "\n\n".join(m.text for m in messages)
    headings = {"system": "Instructions", "user": "User", "assistant": "You answered"}
    return "\n\n".join(f"# {headings[m.author]}\n\n{m.text}" for m in messages)


def _instructions(
    messages: Sequence[ModelMessage], parameters: ModelRequestParameters
) -> Iterator[str]:
    """Instructions are sent with the last request only, whatever the history holds."""
    parts = parameters.instruction_parts
    if parts is not None:
        yield from (part.content for part in parts)
        return
    for message in reversed(messages):
        if isinstance(message, ModelRequest) and message.instructions:
            yield message.instructions
            return


def _request_turns(message: ModelRequest) -> Iterator[Message]:
    for part in message.parts:
        match part:
            case SystemPromptPart():
                yield Message(author="system", text=storable(part.content))
            case UserPromptPart():
                yield Message(author="user", text=storable(_spoken(part)))
            case RetryFeedbackPart():
                yield Message(author="user", text=storable(part.model_response()))
            case ToolReturnPart():
                yield Message(author="user", text=storable(part.model_response_str()))
            case _:
                continue  # parts that speak of tools and instructions, which these agents do not change


def _spoken(part: UserPromptPart) -> str:
    if isinstance(part.content, str):
        return part.content
    return "\n".join(
        item if isinstance(item, str) else getattr(item, "content", "") or ""
        for item in part.content
    )
