"""Answers that are one JSON object: found, validated strictly, and faulted in words."""

from __future__ import annotations

from json import JSONDecodeError
from typing import Annotated, TypeVar

from pydantic import AfterValidator, ValidationError
from pydantic_ai import ModelRetry

from astra_kernels.agents.llm.replies.fences import Block, pieces
from astra_kernels.json_text import parse_json
from astra_kernels.records.base import Record


def _printable(text: str) -> str:
    return "".join(c if c.isprintable() or c == "\n" else " " for c in text)


Words = Annotated[str, AfterValidator(_printable)]
"""Text of a model that people will read in a terminal: control characters become blanks."""

_Read = TypeVar("_Read", bound=Record)
_MOST_TOLD = 8
_MOST_CHARACTERS = 60_000


def read_json(text: str, record: type[_Read]) -> _Read:
    """The one JSON object of an answer as a record.

    It stands in a block fenced as `json`; a block of no language, or an answer that is nothing else, will do.

    Raises:
        ModelRetry: there is none, there are several, it is cut off, or it does not fit the record; says where.
    """
    body = _only_object(text)
    if len(body) > _MOST_CHARACTERS:
        raise ModelRetry(
            f"The JSON has {len(body)} characters; {_MOST_CHARACTERS} are the most. Answer shorter."
        )
    try:
        parse_json(body)
    except JSONDecodeError as error:
        line = body.split("\n")[error.lineno - 1].strip()[:120]
        raise ModelRetry(
            f"The JSON cannot be read: {error.msg} at line {error.lineno}, column {error.colno}: {line}"
        ) from None
    except ValueError as error:
        raise ModelRetry(f"The JSON cannot be read: {error}.") from None
    try:
        return record.model_validate_json(body, strict=True)
    except ValidationError as error:
        raise ModelRetry(_told(error)) from None


def _only_object(text: str) -> str:
    blocks = [p for p in pieces(text) if isinstance(p, Block)]
    named = [b for b in blocks if b.info.split()[:1] and b.info.split()[0].lower() == "json"]
    found = named or [b for b in blocks if not b.info and b.body.lstrip().startswith("{")]
    if len(found) > 1:
        lines = ", ".join(str(b.number) for b in found)
        raise ModelRetry(
            f"There are {len(found)} blocks of JSON, at lines {lines}. Answer with exactly one."
        )
    if found:
        if not found[0].closed:
            raise ModelRetry(
                "The block of JSON is not closed: the answer seems cut off. Answer shorter."
            )
        return found[0].body
    if text.strip().startswith("{"):
        return text.strip()
    raise ModelRetry("There is no JSON in your answer. Answer with one block fenced as ```json.")


def _told(error: ValidationError) -> str:
    lines = []
    for one in error.errors(include_url=False)[:_MOST_TOLD]:
        place = ".".join(str(part) for part in one["loc"]) or "the object"
        lines.append(f"- {place}: {one['msg']}")
    more = error.error_count() - len(lines)
    if more > 0:
        lines.append(f"- and {more} more")
    return "The JSON does not fit:\n" + "\n".join(lines)
