"""Writes code: carries out a plan, or mends a candidate that failed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from pydantic_ai import ModelRetry
from pydantic_ai.models import Model

from astra_kernels.agents.llm.asking import Question, ask, question
from astra_kernels.agents.llm.briefing.outcomes import failure_text
from astra_kernels.agents.llm.briefing.past import attempts_text
from astra_kernels.agents.llm.briefing.problem import problem_text
from astra_kernels.agents.llm.briefing.sources import plain_sources
from astra_kernels.agents.llm.briefing.tables import short
from astra_kernels.agents.llm.briefing.times import device_text
from astra_kernels.agents.llm.entry_point import trouble_with_entry_point
from astra_kernels.agents.llm.planning import standing
from astra_kernels.agents.llm.replies.code import Written, read_candidates
from astra_kernels.agents.rewrites.normalise import fingerprint
from astra_kernels.errors import ModelFault
from astra_kernels.protocols import Refusal
from astra_kernels.records.candidate import Candidate
from astra_kernels.records.evaluation import Evaluation
from astra_kernels.records.history import History
from astra_kernels.records.plan import Plan
from astra_kernels.records.problem import Problem

SHORTER = "Answer again, shorter: no explanations, and SEARCH/REPLACE edits of the lines that change instead of whole files."
ALREADY_TRIED = (
    "already tried: every version it gives differs from an earlier one in layout and comments only"
)


@dataclass(frozen=True)
class LlmCoder:
    """Asks once a plan, and once a repair. Without a usable answer it refuses, with the reason."""

    problem: Problem
    model: Model
    candidates: int = 1
    """How many versions to ask for in one answer."""

    def write(
        self, plan: Plan, parent: Candidate, history: History
    ) -> tuple[Candidate, ...] | Refusal:
        """Candidates that carry out `plan` on `parent`, most promising first.

        Raises:
            BudgetSpent: the model may not be asked any more.
            ModelRejected: the provider refuses every request.
        """
        asked = question(
            "coding",
            SHORTER,
            **self._facts(plan, parent, history),
            parent=parent,
            standing=standing(parent, history)["standing"],
            attempts=attempts_text(history),
            parameters=", ".join(f"{n}={v}" for n, v in sorted(plan.parameters.items())),
            candidates=self.candidates,
        )
        written = ask_for_code(self.model, asked, self.problem, parent, self.candidates)
        if isinstance(written, Refusal):
            return written
        return new_candidates(written, parent, plan, known_programs(self.problem, history, parent))

    def repair(
        self, plan: Plan, failed: Candidate, evaluation: Evaluation, history: History
    ) -> Candidate | Refusal:
        """A candidate that carries out `plan` without the fault of `failed`.

        Raises:
            BudgetSpent: the model may not be asked any more.
            ModelRejected: the provider refuses every request.
        """
        asked = question(
            "repair",
            SHORTER,
            **self._facts(plan, failed, history),
            failed=failed,
            failure=failure_text(evaluation, failed.sources),
            candidates=1,
        )
        written = ask_for_code(self.model, asked, self.problem, failed, 1)
        if isinstance(written, Refusal):
            return written
        known = known_programs(self.problem, history, failed)
        made = new_candidates(written, failed, plan, known)
        return made if isinstance(made, Refusal) else made[0]

    def _facts(self, plan: Plan, subject: Candidate, history: History) -> dict[str, object]:
        return {
            "problem": problem_text(self.problem),
            "device": device_text(history.baseline_evaluation),
            "plan": plan,
            "sources": plain_sources(subject.sources, self.problem.spec.entry_file),
            "entry_file": self.problem.spec.entry_file,
            "binding": self.problem.spec.binding or "c",
        }


def ask_for_code(
    model: Model, asked: Question, problem: Problem, parent: Candidate, most: int
) -> tuple[Written, ...] | Refusal:
    """What a model writes, with the entry point in place; a refusal is the model's own, or for want of an answer.

    Raises:
        BudgetSpent: the model may not be asked any more.
        ModelRejected: the provider refuses every request.
    """
    try:
        return ask(model, asked, lambda text: read_code(text, problem, parent.sources, most))
    except ModelFault as fault:
        return Refusal(f"no usable answer: {fault}", unanswered=True)


def read_code(
    text: str, problem: Problem, parent: Mapping[str, str], most: int
) -> tuple[Written, ...] | Refusal:
    """The candidates of an answer, entry point checked.

    Raises:
        ModelRetry: the answer cannot be used; says why.
    """
    written = read_candidates(text, parent, most)
    if isinstance(written, Refusal):
        return Refusal(f"the model refuses: {written.reason}")
    for one in written:
        trouble = trouble_with_entry_point(problem, one.sources)
        if trouble is not None:
            raise ModelRetry(trouble)
    return written


def known_programs(problem: Problem, history: History, parent: Candidate) -> set[str]:
    """Fingerprints of what has been judged, or is where a candidate starts from."""
    sources = [problem.baseline.sources, parent.sources]
    return {fingerprint(s) for s in (*sources, *(a.candidate.sources for a in history.attempts))}


def new_candidates(
    written: Iterable[Written], parent: Candidate, plan: Plan, known: set[str]
) -> tuple[Candidate, ...] | Refusal:
    """What is written as candidates, without programs that are known; refused where nothing is left."""
    made = []
    for one in written:
        digest = fingerprint(one.sources)
        if digest in known:
            continue
        known.add(digest)
        what = one.title or short(plan.hypothesis, 120)
        made.append(
            Candidate(
                sources=one.sources, parent=parent.id, title=short(f"{plan.technique}: {what}", 200)
            )
        )
    return tuple(made) or Refusal(ALREADY_TRIED)
