"""A model as it was opened: what the meter must know of it, beside how to ask it."""

from __future__ import annotations

from dataclasses import dataclass

from pydantic_ai.models import Model

from astra_kernels.models.prices import Price


@dataclass(frozen=True)
class Backend:
    """Something that answers requests."""

    name: str
    """As the user spells it."""
    model: Model
    price: Price | None = None
    """A price that does not come from a table: a command line and a person cost nothing here."""
    deadline_s: float | None = None
    """Wall-clock time of one try; None is no limit."""
    own_tokens: int = 0
    """Input that it adds to every request of its own accord, at most."""
