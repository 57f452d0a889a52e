"""One question to a language model: asked, read, and asked again with the fault in words when it cannot be read."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from pydantic_ai import Agent, ModelRetry, RunContext, TextOutput
from pydantic_ai.exceptions import AgentRunError, ContentFilterError, OutputTokenLimitExceeded
from pydantic_ai.messages import ModelResponse
from pydantic_ai.models import Model

from astra_kernels.agents.llm.rendering import render
from astra_kernels.errors import ModelFault

RETRIES = 2
"""How often an answer that cannot be read is sent back."""

_MOST_CHARACTERS = 2_000_000
_Read = TypeVar("_Read")


@dataclass(frozen=True)
class Question:
    """What a role is told, and what it is asked.

    Attributes:
        instructions: who the model is, the rules and the format of answers.
        situation: what there is to know, and the request.
        shorter: how to answer when an answer was cut off; empty where a cut answer may still be whole.
    """

    instructions: str
    situation: str
    shorter: str = ""


def question(role: str, shorter: str = "", **facts: object) -> Question:
    """The question of a role, from its two templates."""
    return Question(
        instructions=render(f"{role}.system", **facts),
        situation=render(role, **facts),
        shorter=shorter,
    )


def ask(model: Model, asked: Question, read: Callable[[str], _Read]) -> _Read:
    """The model's answer as `read` understands it, after at most `RETRIES` further attempts.

    Args:
        model: the model of the role.
        asked: what to ask.
        read: turns text into a result; raises `ModelRetry` with what is wrong with it.

    Raises:
        ModelFault: no usable answer; says what was wrong with the last one.
        BudgetSpent: the model may not be asked any more.
        ModelRejected: the provider refuses every request.
    """

    def output(context: RunContext[None], text: str) -> object:
        text = text.encode("utf-8", "replace").decode()  # lone surrogates cannot be stored
        if len(text) > _MOST_CHARACTERS:
            raise ModelRetry("Your answer is too long to be read. Answer shorter.")
        if asked.shorter and _was_cut(context):
            raise ModelRetry(
                f"Your answer was cut off at the limit of output tokens. {asked.shorter}"
            )
        found.append(read(text))
        return found[-1]

    found: list[_Read] = []
    agent = Agent(
        model,
        output_type=TextOutput(output),
        instructions=asked.instructions,
        retries={"output": RETRIES, "tools": 0},
    )
    try:
        asyncio.run(
            agent.run(asked.situation)
        )  # a loop of its own: roles are asked from many threads
    except ContentFilterError:
        raise ModelFault("the provider's filter withheld the answer") from None
    except OutputTokenLimitExceeded:
        raise ModelFault("the limit of output tokens was reached before any answer") from None
    except AgentRunError as error:
        raise ModelFault(_last_fault(error)) from error
    return found[-1]


def _was_cut(context: RunContext[None]) -> bool:
    last = context.messages[-1]
    return isinstance(last, ModelResponse) and last.finish_reason == "length"


def _last_fault(error: AgentRunError) -> str:
    """What was wrong with the last answer, in one line."""
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, ModelRetry):
            return f"{RETRIES + 1} answers could not be used: {_line(cause.message)}"
        cause = cause.__cause__
    return _line(str(error))


def _line(text: str) -> str:
    return " ".join(text.replace("`", "").split())[:400]
