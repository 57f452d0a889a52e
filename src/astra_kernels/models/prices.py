"""What a call costs in US dollars: a price that the user gave, or the offline table of genai-prices."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pydantic_ai.models import Model
    from pydantic_ai.usage import RequestUsage

_MILLION = 1_000_000


@dataclass(frozen=True)
class Price:
    """A flat price, in US dollars for a million tokens."""

    input_usd_per_mtok: float
    output_usd_per_mtok: float

    def usd(self, input_tokens: int, output_tokens: int) -> float:
        """Cost of that many tokens."""
        return (
            input_tokens * self.input_usd_per_mtok + output_tokens * self.output_usd_per_mtok
        ) / _MILLION


FREE = Price(0.0, 0.0)


@dataclass(frozen=True)
class Tariff:
    """Prices the calls of one model."""

    model: Model
    flat: Price | None = None
    """Overrides the table."""

    @property
    def known(self) -> bool:
        """Whether calls of the model can be priced at all."""
        return self.ceiling(1, 1) is not None

    def ceiling(self, input_tokens: int, output_tokens: int) -> float | None:
        """The most that a call may cost: its input may also be billed as written to a cache. None when unknown."""
        if self.flat is not None:
            return self.flat.usd(input_tokens, output_tokens)
        from pydantic_ai.usage import RequestUsage

        costs = [
            self.cost(
                RequestUsage(
                    input_tokens=input_tokens,
                    cache_write_tokens=cached,
                    output_tokens=output_tokens,
                )
            )
            for cached in (0, input_tokens)
        ]
        return max((c for c in costs if c is not None), default=None)

    def cost(self, usage: RequestUsage) -> float | None:
        """What an answered call cost; None when the price is not known."""
        if self.flat is not None:
            return self.flat.usd(usage.input_tokens, usage.output_tokens)
        from genai_prices import calc_price

        try:
            price = calc_price(usage, self.model.model_name, provider_id=self.model.system)
        except (
            LookupError,
            ValueError,
        ):  # a model that the table lacks; counts that contradict each other
            return None
        return float(price.total_price)
