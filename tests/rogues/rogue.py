"""One row of the gallery: a trick, the outcome that it must get, and why."""

from dataclasses import dataclass, field

from .honest import SOURCES

Edits = tuple[tuple[str, str], ...]


@dataclass(frozen=True, kw_only=True)
class Rogue:
    """A candidate that cheats, or an honest one that looks as if it did.

    Attributes:
        name: its id in tests and in docs/rogues.md.
        trick: what it does, in words.
        sim: outcome on a simulated device, "outcome" or "outcome:rule or kind"; "|" between alternatives.
        gpu: likewise on a real one.
        why: what makes that outcome certain.
        base: the honest program that is edited.
        edits: (old, new) pairs; every old text must be there.
        more: further files by name.
        baseline: edits of the baseline's own source.
        large: whether a workload too large to check on a simulated device is timed too.
        limit_s: the deadline of the correctness gate.
        tools: whether a GPU needs compute-sanitizer to see it, as confirmation runs it.
        honest: whether it is a look-alike, which must pass.
        pending: what the judge still lacks, by device, for a row that it gets wrong today.
    """

    name: str
    trick: str
    sim: str
    gpu: str
    why: str
    base: str = "silu"
    edits: Edits = ()
    more: dict[str, str] = field(default_factory=dict)
    baseline: Edits = ()
    large: bool = False
    limit_s: float = 60
    tools: bool = False
    honest: bool = False
    pending: dict[str, str] = field(default_factory=dict)

    def files(self) -> dict[str, str]:
        """The candidate's sources by name."""
        return {"kernel.cu": _edited(SOURCES[self.base], self.edits), **self.more}

    def baseline_files(self) -> dict[str, str]:
        """The baseline's sources by name."""
        return {"kernel.cu": _edited(SOURCES[self.base], self.baseline)}


def matches(expected: str, outcome) -> bool:
    """Whether an outcome is one of those that a row allows."""
    found = outcome.outcome
    detail = getattr(outcome, "rule", "") if found == "rejected" else getattr(outcome, "kind", "")
    return any(one in (found, f"{found}:{detail}") for one in expected.split("|"))


def _edited(source: str, edits: Edits) -> str:
    for old, new in edits:
        assert old in source, f"{old!r} is not in the honest program"
        source = source.replace(old, new)
    return source
