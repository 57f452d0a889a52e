"""How long a request may take, how often it is asked again, and how much it may answer."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field

from astra_kernels.models.prices import Price

MAX_OUTPUT_TOKENS = 32768


@dataclass(frozen=True)
class Patience:
    """When to ask again after a fault that may pass."""

    tries: int = 5
    """How often one request is sent at most."""
    first_wait_s: float = 1.0
    """Before the second try; it doubles with every further one."""
    longest_wait_s: float = 60.0
    """Of one wait; a provider that asks for a longer one is given it."""
    total_wait_s: float = 300.0
    """Of one request, over all its waits; a wait beyond it is not begun."""
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep
    jitter: Callable[[], float] = random.random
    """In [0, 1): requests that failed together do not come back together."""

    def wait_s(self, failures: int, retry_after_s: float | None) -> float:
        """Seconds before the next try: what the provider asked for, or half to all of the current step."""
        if retry_after_s is not None:
            return retry_after_s
        step = min(self.first_wait_s * 2.0 ** (failures - 1), self.longest_wait_s)
        return step * (0.5 + 0.5 * self.jitter())


@dataclass(frozen=True)
class Limits:
    """What bounds every request beside the run's budget."""

    max_output_tokens: int = MAX_OUTPUT_TOKENS
    """Sent to the provider and set aside, unless an agent asks for less."""
    request_s: float = 900.0
    """Wall-clock time of one try. Not of `manual:`, where a person answers."""
    manual_s: float | None = None
    """Wall-clock time in which a person has to answer; None waits for ever."""
    patience: Patience = field(default_factory=Patience)
    prices: Mapping[str, Price] = field(default_factory=dict)
    """By the name of a model as the user spells it; they go before the table of prices."""
