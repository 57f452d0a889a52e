"""A coder whose candidates also go through the source rewrites: what a model wrote first, then its variants."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from astra_kernels.agents.rewrites import REWRITES, Applied, fingerprint
from astra_kernels.agents.rules.coding import program_of
from astra_kernels.protocols import CodingAgent, Refusal
from astra_kernels.records.candidate import Candidate
from astra_kernels.records.evaluation import Evaluation
from astra_kernels.records.history import History
from astra_kernels.records.plan import Plan
from astra_kernels.records.problem import Problem

_REWRITTEN = " + rewrite "
"""Stands in the title of every variant, between what the model did and what was applied to it."""


@dataclass(frozen=True)
class HybridCoder:
    """Adds variants to what another coder writes; refusals are the other coder's, and repairs of what it wrote.

    A variant has the parent that its plan has, as what it is a variant of: it is an alternative, not a repair.
    """

    problem: Problem
    inner: CodingAgent
    variants: int = 3
    """At most so many for every candidate: a handful where each is judged, more where a screening device ranks them."""

    def write(
        self, plan: Plan, parent: Candidate, history: History
    ) -> tuple[Candidate, ...] | Refusal:
        """The other coder's candidates as they are, then the variants of each, each labelled with what was applied.

        Raises:
            BudgetSpent: a language model may not be asked any more.
        """
        written = self.inner.write(plan, parent, history)
        if isinstance(written, Refusal):
            return written
        known = {fingerprint(a.candidate.sources) for a in history.attempts}
        known |= {fingerprint(c.sources) for c in (self.problem.baseline, parent, *written)}
        variants = [v for c in written for v in self._variants(c, known)]
        return (*written, *variants)

    def repair(
        self, plan: Plan, failed: Candidate, evaluation: Evaluation, history: History
    ) -> Candidate | Refusal:
        """The other coder's repair, without variants; a variant that failed is left alone.

        Raises:
            BudgetSpent: a language model may not be asked any more.
        """
        if _REWRITTEN in failed.title:
            return Refusal(
                "a variant by rewriting: what it was made from is mended, where that failed"
            )
        return self.inner.repair(plan, failed, evaluation, history)

    def _variants(self, candidate: Candidate, known: set[str]) -> list[Candidate]:
        """New programs only; `known` learns them. Rewrites take turns, so that none uses up all variants."""
        found: list[Candidate] = []
        waiting = [self._rewritten(candidate, index) for index in range(len(REWRITES))]
        while waiting and len(found) < self.variants:
            rewrites = waiting.pop(0)
            variant = next((v for v in rewrites if fingerprint(v.sources) not in known), None)
            if variant is not None:
                known.add(fingerprint(variant.sources))
                found.append(variant)
                waiting.append(rewrites)
        return found

    def _rewritten(self, candidate: Candidate, index: int) -> Iterator[Candidate]:
        rewrite = REWRITES[index]
        program = program_of(self.problem, candidate)
        for point in rewrite.parameters(program):
            result = rewrite.apply(program, point)
            if isinstance(result, Applied):
                yield Candidate(
                    sources=dict(result.sources),
                    parent=candidate.parent,
                    title=f"{candidate.title}{_REWRITTEN}{rewrite.technique} ({point}): {result.summary}",
                )
