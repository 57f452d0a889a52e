"""Which timed points are held out from every fit: a third, by a hash of their names.

The rule was fixed, and the list written (`holdout.json`), before any of the points was measured. Neither
changes when points are added: new names fall by the same rule.
"""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

LIST = Path(__file__).parent / "holdout.json"


def held_out(name: str) -> bool:
    """Whether the SHA-256 of the name, as a big-endian number, is a multiple of 3."""
    return int.from_bytes(hashlib.sha256(name.encode()).digest(), "big") % 3 == 0


def listed() -> frozenset[str]:
    """The names that the repository's list holds out."""
    return frozenset(json.loads(LIST.read_text(encoding="utf-8"))["held_out"])
