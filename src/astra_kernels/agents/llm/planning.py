"""Says what to try, from the diagnosis and from what came of earlier plans."""

from __future__ import annotations

from dataclasses import dataclass

from pydantic import Field
from pydantic_ai import ModelRetry
from pydantic_ai.models import Model

from astra_kernels.agents.llm.asking import Question, ask, question
from astra_kernels.agents.llm.briefing.counters import compiled_text, counters_text
from astra_kernels.agents.llm.briefing.outcomes import failure_text
from astra_kernels.agents.llm.briefing.past import OPEN, attempts_text, ideas_text
from astra_kernels.agents.llm.briefing.problem import problem_text
from astra_kernels.agents.llm.briefing.sources import numbered_sources
from astra_kernels.agents.llm.briefing.tables import number
from astra_kernels.agents.llm.briefing.times import device_text, times_text
from astra_kernels.agents.llm.replies.json_blocks import Words, read_json
from astra_kernels.agents.rules.planning import RulePlanner
from astra_kernels.errors import ModelFault
from astra_kernels.records.base import Record
from astra_kernels.records.candidate import Candidate
from astra_kernels.records.evaluation import Passed
from astra_kernels.records.history import History
from astra_kernels.records.plan import Diagnosis, Plan
from astra_kernels.records.problem import Problem

MOST_PLANS = 8
_OPEN = Plan(
    id="open",
    parent="",
    technique=OPEN,
    hypothesis="whatever has not been tried yet and the source supports",
    predicted_gain=1.0,
    risk="not stated",
)


class ProposedPlan(Record):
    """One plan as the model writes it."""

    technique: str = Field(pattern=r"^[a-z][a-z0-9_]{1,47}$")
    hypothesis: Words = Field(min_length=1, max_length=1500)
    where: Words = Field("", max_length=300)
    predicted_gain: float = Field(gt=0.2, lt=50, allow_inf_nan=False)
    risk: Words = Field(max_length=800)


class ProposedPlans(Record):
    """The answer of the planning agent."""

    plans: tuple[ProposedPlan, ...] = Field(max_length=MOST_PLANS)


@dataclass(frozen=True)
class LlmPlanner:
    """Asks once a round and parent.

    Without a usable answer it gives the best plans of the rules, or one open plan where these have none left, each marked
    in its hypothesis: an empty answer would end the search. An empty list from the model is its own word that nothing is left.
    """

    problem: Problem
    model: Model
    plans: int = 3
    notes: str = ""
    """What earlier runs teach, as text."""

    def plan(
        self, parent: Candidate, diagnosis: Diagnosis | None, history: History
    ) -> tuple[Plan, ...]:
        """Plans for `parent`, best first; empty when the model says that nothing is left to try.

        Raises:
            BudgetSpent: the model may not be asked any more.
            ModelRejected: the provider refuses every request.
        """
        asked = self._question(parent, diagnosis, history)
        number_of_round = history.rounds_ended + 1
        try:
            return ask(
                self.model,
                asked,
                lambda text: read_plans(text, parent, number_of_round, self.plans),
            )
        except ModelFault as fault:
            note = f"(by rules, for want of a model's answer: {fault}) "
            rules = RulePlanner().plan(parent, diagnosis, history)[: self.plans] or (_OPEN,)
            return tuple(
                plan.model_copy(
                    update={
                        "id": f"r{number_of_round}-{plan.technique}-{parent.id[:6]}",
                        "parent": parent.id,
                        "hypothesis": note + plan.hypothesis,
                    }
                )
                for plan in rules
            )

    def _question(
        self, parent: Candidate, diagnosis: Diagnosis | None, history: History
    ) -> Question:
        return question(
            "planning",
            problem=problem_text(self.problem),
            device=device_text(history.baseline_evaluation),
            parent=parent,
            sources=numbered_sources(parent.sources, self.problem.spec.entry_file),
            **standing(parent, history),
            diagnosis=diagnosis_text(diagnosis),
            attempts=attempts_text(history),
            ideas=ideas_text(history),
            notes=self.notes.strip(),
            plans=self.plans,
        )


def standing(candidate: Candidate, history: History) -> dict[str, str]:
    """Times, counters and the compiler's report of a candidate, or what is wrong with it, by name of the prompt's part."""
    evaluation = history.evaluation_of(candidate.id)
    if isinstance(evaluation, Passed):
        return {
            "standing": times_text(evaluation),
            "counters": counters_text(evaluation),
            "compiled": compiled_text(evaluation),
        }
    told = "It was not judged yet."
    if evaluation is not None:
        told = failure_text(evaluation, candidate.sources)
    baseline = history.baseline_evaluation
    if isinstance(baseline, Passed):
        told += f"\n\nTimes of the baseline:\n\n{times_text(baseline)}"
    return {"standing": told, "counters": "", "compiled": ""}


def diagnosis_text(diagnosis: Diagnosis | None) -> str:
    """A diagnosis with its evidence."""
    if diagnosis is None:
        return "None: the candidate did not pass."
    lines = [f"- {e.metric} = {number(e.value)}: {e.meaning}" for e in diagnosis.evidence]
    return "\n".join([f"{diagnosis.bottleneck}: {diagnosis.summary}", *lines])


def read_plans(text: str, parent: Candidate, round_number: int, most: int) -> tuple[Plan, ...]:
    """The plans of an answer, at most `most`; identifiers are given here, unique in a run.

    Raises:
        ModelRetry: the answer cannot be read; says why.
    """
    proposed = read_json(text, ProposedPlans).plans
    seen: set[tuple[str, str]] = set()
    for one in proposed:
        key = (one.technique, one.hypothesis)
        if key in seen:
            raise ModelRetry(f"The plan {one.technique!r} is there twice, word for word.")
        seen.add(key)
    return tuple(
        Plan(
            id=f"r{round_number}-{index}-{parent.id[:6]}",
            parent=parent.id,
            technique=one.technique,
            hypothesis=one.hypothesis + (f" Where: {one.where}" if one.where else ""),
            predicted_gain=one.predicted_gain,
            risk=one.risk,
        )
        for index, one in enumerate(proposed[:most], 1)
    )
