"""One agent that does all four jobs, for comparison: a request for workloads, then one a round for everything else."""

from __future__ import annotations

from dataclasses import dataclass

from pydantic import Field
from pydantic_ai.models import Model

from astra_kernels.agents.llm.asking import ask, question
from astra_kernels.agents.llm.briefing.past import OPEN, attempts_text, ideas_text
from astra_kernels.agents.llm.briefing.problem import problem_text
from astra_kernels.agents.llm.briefing.sources import plain_sources
from astra_kernels.agents.llm.briefing.times import device_text
from astra_kernels.agents.llm.coding import (
    SHORTER,
    LlmCoder,
    known_programs,
    new_candidates,
    read_code,
)
from astra_kernels.agents.llm.planning import standing
from astra_kernels.agents.llm.replies.code import Written
from astra_kernels.agents.llm.replies.json_blocks import Words, read_json
from astra_kernels.agents.llm.testing import LlmTester
from astra_kernels.errors import ModelFault
from astra_kernels.protocols import Refusal
from astra_kernels.records.base import Record
from astra_kernels.records.candidate import Candidate
from astra_kernels.records.evaluation import Evaluation, Passed
from astra_kernels.records.history import History
from astra_kernels.records.plan import Diagnosis, Plan
from astra_kernels.records.problem import Problem
from astra_kernels.records.workload import Workload


class Thought(Record):
    """What the agent says before its code."""

    diagnosis: Words = Field(min_length=1, max_length=2000)
    technique: str = Field(pattern=r"^[a-z][a-z0-9_]{1,47}$")
    hypothesis: Words = Field(min_length=1, max_length=1500)
    predicted_gain: float = Field(gt=0.2, lt=50, allow_inf_nan=False)


@dataclass(frozen=True)
class SingleAgent:
    """All four roles in one: the loop needs no special case.

    `diagnose` and `plan` ask nobody and say so; `write` asks for diagnosis, plan and code together, of which the log keeps
    the whole answer and the candidate's title the technique.
    """

    problem: Problem
    model: Model
    candidates: int = 1
    """How many versions to ask for in one answer."""
    notes: str = ""
    """What earlier runs teach, as text."""

    def propose(self, problem: Problem) -> tuple[Workload, ...]:
        """Further workloads, as the testing agent asks for them.

        Raises:
            BudgetSpent: the model may not be asked any more.
            ModelRejected: the provider refuses every request.
        """
        return LlmTester(self.model).propose(problem)

    def diagnose(self, candidate: Candidate, evaluation: Passed) -> Diagnosis:
        """No diagnosis yet: it comes with the code."""
        return Diagnosis(
            subject=candidate.id,
            bottleneck="unknown",
            summary="left to the single agent, which diagnoses, plans and writes in one answer",
            evidence=(),
        )

    def plan(
        self, parent: Candidate, diagnosis: Diagnosis | None, history: History
    ) -> tuple[Plan, ...]:
        """One open plan, without asking."""
        return (
            Plan(
                id=f"r{history.rounds_ended + 1}-1-{parent.id[:6]}",
                parent=parent.id,
                technique=OPEN,
                hypothesis="left to the single agent, which diagnoses, plans and writes in one answer",
                predicted_gain=1.0,
                risk="not stated",
            ),
        )

    def write(
        self, plan: Plan, parent: Candidate, history: History
    ) -> tuple[Candidate, ...] | Refusal:
        """Candidates made from `parent`, most promising first.

        Raises:
            BudgetSpent: the model may not be asked any more.
            ModelRejected: the provider refuses every request.
        """
        asked = question(
            "single",
            SHORTER,
            problem=problem_text(self.problem),
            device=device_text(history.baseline_evaluation),
            parent=parent,
            **standing(parent, history),
            ideas=ideas_text(history),
            attempts=attempts_text(history),
            notes=self.notes.strip(),
            sources=plain_sources(parent.sources, self.problem.spec.entry_file),
            entry_file=self.problem.spec.entry_file,
            binding=self.problem.spec.binding or "c",
            candidates=self.candidates,
        )
        try:
            answer = ask(self.model, asked, lambda text: self._read(text, parent))
        except ModelFault as fault:
            return Refusal(f"no usable answer: {fault}", unanswered=True)
        if isinstance(answer, Refusal):
            return answer
        thought, written = answer
        meant = plan.model_copy(
            update={"technique": thought.technique, "hypothesis": thought.hypothesis}
        )
        known = known_programs(self.problem, history, parent)
        return new_candidates(written, parent, meant, known)

    def repair(
        self, plan: Plan, failed: Candidate, evaluation: Evaluation, history: History
    ) -> Candidate | Refusal:
        """A candidate without the fault of `failed`.

        Raises:
            BudgetSpent: the model may not be asked any more.
            ModelRejected: the provider refuses every request.
        """
        return LlmCoder(self.problem, self.model).repair(plan, failed, evaluation, history)

    def _read(self, text: str, parent: Candidate) -> tuple[Thought, tuple[Written, ...]] | Refusal:
        written = read_code(text, self.problem, parent.sources, self.candidates)
        if isinstance(written, Refusal):
            return written
        return read_json(text, Thought), written
