"""What every pydantic record shares."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict


class Record(BaseModel):
    """A frozen record: unknown fields are refused, so that a typing error is found where it was made."""

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)
