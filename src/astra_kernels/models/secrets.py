"""Keeps keys out of everything that is written down or shown."""

from __future__ import annotations

from collections.abc import Mapping

_ENDINGS = ("_KEY", "_TOKEN", "_SECRET", "_PASSWORD")
_SHORTEST = 4
_LONG = 16
"""Characters from which a value is taken out of answers too; a shorter one may be an ordinary word of a program."""


class Secrets:
    """The values of an environment that must not leave it, longest first."""

    def __init__(self, environment: Mapping[str, str]) -> None:
        self._names = {
            value.strip(): name
            for name, value in environment.items()
            if name.upper().endswith(_ENDINGS) and len(value.strip()) >= _SHORTEST
        }
        self._values = sorted(self._names, key=len, reverse=True)

    def scrub(self, text: str) -> str:
        """An error text without any of them: `[NAME]` stands in the place of the value of NAME."""
        return self._replace(text, _SHORTEST)

    def scrub_answer(self, text: str) -> str:
        """A model's answer without the long ones; short values may be words of its code."""
        return self._replace(text, _LONG)

    def _replace(self, text: str, shortest: int) -> str:
        for value in self._values:
            if len(value) >= shortest:
                text = text.replace(value, f"[{self._names[value]}]")
        return text
