"""What an admission rule has to say about a candidate."""

from dataclasses import dataclass
from typing import Literal

Rule = Literal[
    "imported-symbol",
    "needed-library",
    "load-time-code",
    "own-runtime",
    "device-memory",
    "assembler",
    "include",
    "attribute",
    "hidden-keyword",
    "pragma",
    "generated-name",
    "pasted-name",
    "build-time",
    "clock",
]
Weight = Literal["rejecting", "suspicious"]


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing about a library or its sources that an honest kernel does not need.

    Attributes:
        rule: which rule it breaks.
        symbol: the name at fault: a symbol, or what the source says.
        weight: "rejecting" ends the candidate; "suspicious" is shown in reports.
        reason: what the rule says, in words.
        place: "file:line" of the source, "" where the binary was read.
    """

    rule: Rule
    symbol: str
    weight: Weight
    reason: str
    place: str = ""

    def __str__(self) -> str:
        """The finding in one line."""
        said = f"{self.symbol}: {self.reason}"
        return f"{self.place}: {said}" if self.place else said
