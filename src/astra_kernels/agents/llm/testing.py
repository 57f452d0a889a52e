"""Proposes workloads after reading the source. Proposals are data; whether one counts is decided by the baseline."""

from __future__ import annotations

from dataclasses import dataclass
from typing import get_args

from pydantic import Field
from pydantic_ai import ModelRetry
from pydantic_ai.models import Model

from astra_kernels.agents.llm.asking import ask, question
from astra_kernels.agents.llm.briefing.problem import problem_text, workloads_text
from astra_kernels.agents.llm.briefing.sources import numbered_sources
from astra_kernels.agents.llm.replies.json_blocks import read_json
from astra_kernels.errors import ModelFault
from astra_kernels.records.base import Record
from astra_kernels.records.problem import Problem
from astra_kernels.records.sizes import total_elements
from astra_kernels.records.workload import (
    CustomInput,
    Distribution,
    InputSource,
    RandomInput,
    SafetensorsInput,
    ScalarInput,
    Workload,
)

MOST_WORKLOADS = 9
MOST_ELEMENTS = 1 << 20
"""As the tester without a model: every proposal is judged again with every candidate."""


class ProposedWorkload(Record):
    """One proposal as the model writes it."""

    sizes: dict[str, int] = Field(max_length=32)
    values: dict[str, Distribution] = Field(default_factory=dict, max_length=32)
    why: str = Field("", max_length=600)


class Proposals(Record):
    """The answer of the testing agent."""

    workloads: tuple[ProposedWorkload, ...] = Field(max_length=MOST_WORKLOADS)


@dataclass(frozen=True)
class LlmTester:
    """Asks once. Without a usable answer there are no proposals; the call stays in the run's log."""

    model: Model

    def propose(self, problem: Problem) -> tuple[Workload, ...]:
        """Further workloads, to be checked but not timed.

        Raises:
            BudgetSpent: the model may not be asked any more.
            ModelRejected: the provider refuses every request.
        """
        template = problem.workloads[0]
        if any(isinstance(s, SafetensorsInput) for s in template.inputs.values()):
            return ()
        asked = question(
            "testing",
            problem=problem_text(problem),
            workloads=workloads_text(problem.workloads),
            fixed_values=any(isinstance(s, CustomInput) for s in template.inputs.values()),
            sources=numbered_sources(problem.baseline.sources, problem.spec.entry_file),
            distributions=", ".join(get_args(Distribution)),
            most=MOST_WORKLOADS,
            most_elements=MOST_ELEMENTS,
        )
        try:
            return ask(self.model, asked, lambda text: read_workloads(text, problem))
        except ModelFault:
            return ()


def read_workloads(text: str, problem: Problem) -> tuple[Workload, ...]:
    """The proposals of an answer as workloads of the problem, each different from all others.

    Raises:
        ModelRetry: an answer that cannot be read, or proposals that the definition does not allow; says which and why.
    """
    found: dict[str, Workload] = {}
    faults = []
    for index, proposed in enumerate(read_json(text, Proposals).workloads):
        try:
            workload = _workload(proposed, problem)
        except ValueError as error:
            faults.append(f"- workloads.{index}: {error}")
            continue
        found.setdefault(workload.uuid, workload)
    if faults:
        raise ModelRetry("Some workloads cannot be used:\n" + "\n".join(faults))
    taken = {w.uuid for w in problem.workloads}
    return tuple(w for uuid, w in found.items() if uuid not in taken)


def _workload(proposed: ProposedWorkload, problem: Problem) -> Workload:
    definition = problem.definition
    template = problem.workloads[0].inputs
    tensors = {n for n, s in template.items() if isinstance(s, RandomInput)}
    if unknown := sorted(proposed.values.keys() - tensors):
        named = ", ".join(sorted(tensors)) or "none"
        raise ValueError(f"values.{unknown[0]}: no input that takes values (those are: {named})")
    inputs = {n: _source(n, s, proposed) for n, s in template.items()}
    sizes = {n: proposed.sizes[n] for n in definition.var_axes if n in proposed.sizes}
    sizes |= proposed.sizes  # names that the definition does not know are refused below
    name = "-".join(f"{axis}{size}" for axis, size in sizes.items())
    kinds = [f"{n}.{k}" for n, k in sorted(proposed.values.items()) if k != "normal"]
    workload = Workload(
        uuid=f"test-{'-'.join([name, *kinds])}"[:200], axes=sizes, inputs=inputs, timed=False
    )
    workload.check_against(definition)
    elements = total_elements(definition, definition.resolve_axes(sizes))
    if elements > MOST_ELEMENTS:
        raise ValueError(f"sizes: {elements} elements in all tensors; {MOST_ELEMENTS} are the most")
    return workload


def _source(name: str, template: InputSource, proposed: ProposedWorkload) -> InputSource:
    if isinstance(template, ScalarInput | CustomInput):
        return template
    return RandomInput(distribution=proposed.values.get(name, "normal"))
