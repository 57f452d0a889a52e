"""Says what limits a kernel, and cites counters; code checks that they exist and have the values given."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import get_args

from pydantic import Field
from pydantic_ai import ModelRetry
from pydantic_ai.models import Model

from astra_kernels.agents.llm.asking import ask, question
from astra_kernels.agents.llm.briefing.counters import citable, compiled_text, counters_text
from astra_kernels.agents.llm.briefing.problem import problem_text
from astra_kernels.agents.llm.briefing.sources import numbered_sources
from astra_kernels.agents.llm.briefing.tables import number
from astra_kernels.agents.llm.briefing.times import device_text, times_text
from astra_kernels.agents.llm.replies.json_blocks import Words, read_json
from astra_kernels.agents.rules.profiling import RuleProfiler
from astra_kernels.errors import ModelFault
from astra_kernels.records.base import Record
from astra_kernels.records.candidate import Candidate
from astra_kernels.records.evaluation import Passed
from astra_kernels.records.plan import Bottleneck, Diagnosis, Evidence
from astra_kernels.records.problem import Problem

_ROUNDING = 2e-3
"""Relative: tables give four significant digits."""


class CitedEvidence(Record):
    """One counter as the model cites it."""

    metric: str = Field(max_length=200)
    value: float = Field(allow_inf_nan=False)
    meaning: Words = Field(max_length=400)


class ProposedDiagnosis(Record):
    """The answer of the profiling agent."""

    bottleneck: Bottleneck
    summary: Words = Field(min_length=1, max_length=2000)
    evidence: tuple[CitedEvidence, ...] = Field(max_length=8)


@dataclass(frozen=True)
class LlmProfiler:
    """Asks once a candidate. Without a usable answer the rules diagnose, and the summary says so."""

    problem: Problem
    model: Model

    def diagnose(self, candidate: Candidate, evaluation: Passed) -> Diagnosis:
        """A diagnosis that cites counters with their true values.

        Raises:
            BudgetSpent: the model may not be asked any more.
            ModelRejected: the provider refuses every request.
        """
        asked = question(
            "profiling",
            problem=problem_text(self.problem),
            device=device_text(evaluation),
            sources=numbered_sources(candidate.sources, self.problem.spec.entry_file),
            times=times_text(evaluation),
            counters=counters_text(evaluation),
            compiled=compiled_text(evaluation),
            bottlenecks=", ".join(f"`{b}`" for b in get_args(Bottleneck)),
        )
        values = citable(evaluation)
        try:
            return ask(self.model, asked, lambda text: read_diagnosis(text, candidate.id, values))
        except ModelFault as fault:
            diagnosis = RuleProfiler().diagnose(candidate, evaluation)
            summary = f"by rules, for want of a model's answer ({fault}): {diagnosis.summary}"
            return diagnosis.model_copy(update={"summary": summary})


def read_diagnosis(text: str, subject: str, values: Mapping[str, tuple[float, ...]]) -> Diagnosis:
    """The diagnosis of an answer; evidence gets the exact values.

    Args:
        text: the answer.
        subject: identifier of the candidate.
        values: what may be cited, by name.

    Raises:
        ModelRetry: the answer cannot be read, or evidence does not exist or has another value; says which.
    """
    proposed = read_json(text, ProposedDiagnosis)
    evidence, faults = [], []
    for index, cited in enumerate(proposed.evidence):
        known = values.get(cited.metric, ())
        exact = min(known, key=lambda v: abs(v - cited.value), default=None)
        if exact is None:
            faults.append(f"- evidence.{index}: there is no counter {cited.metric!r}")
        elif not math.isclose(exact, cited.value, rel_tol=_ROUNDING, abs_tol=1e-9):
            given = ", ".join(number(v) for v in known[:12])
            faults.append(
                f"- evidence.{index}: {cited.metric} is nowhere {number(cited.value)}; it is {given}"
            )
        else:
            evidence.append(Evidence(metric=cited.metric, value=exact, meaning=cited.meaning))
    if values and not proposed.evidence:
        faults.append("- evidence: cite at least one counter")
    if faults:
        raise ModelRetry("Evidence has to be in the tables:\n" + "\n".join(faults))
    return Diagnosis(
        subject=subject,
        bottleneck=proposed.bottleneck,
        summary=proposed.summary,
        evidence=tuple(evidence),
    )
