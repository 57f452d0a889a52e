"""What every pydantic record shares."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict


class Record(BaseModel):
    """A frozen record: unknown fields are refused, so that a typing error is found where it was made.

    Its validator is built when it is first needed: a command needs a few of them.
    """

    model_config = ConfigDict(
        frozen=True, extra="forbid", use_attribute_docstrings=True, defer_build=True
    )
