"""Carries out a plan with a source rewrite, and searches over the rewrite's parameters."""

from __future__ import annotations

from astra_kernels.agents.rewrites import (
    REWRITES,
    Applied,
    ParameterPoint,
    Program,
    Refused,
    fingerprint,
)
from astra_kernels.protocols import Refusal
from astra_kernels.records.candidate import Candidate
from astra_kernels.records.definition import AxisVar
from astra_kernels.records.evaluation import Evaluation
from astra_kernels.records.history import History
from astra_kernels.records.plan import Plan
from astra_kernels.records.problem import Problem


class RuleCoder:
    """Turns a plan's technique into candidates, one for each parameter point that gives new code."""

    def __init__(self, problem: Problem) -> None:
        self._problem = problem

    def write(
        self, plan: Plan, parent: Candidate, history: History
    ) -> tuple[Candidate, ...] | Refusal:
        """Candidates that carry out `plan` on `parent`, most promising first."""
        rewrite = next((r for r in REWRITES if r.technique == plan.technique), None)
        if rewrite is None:
            return Refusal(f"no rewrite for technique {plan.technique!r}")
        program = program_of(self._problem, parent)
        points = rewrite.parameters(program) or (rewrite.sample,)
        if plan.parameters:
            points = tuple(p for p in points if _matches(p, plan))
        known = {fingerprint(a.candidate.sources) for a in history.attempts}
        known.add(fingerprint(self._problem.baseline.sources))
        candidates: list[Candidate] = []
        reason = "no point of its space has the parameters that the plan asks for"
        for point in points:
            result = rewrite.apply(program, point)
            if isinstance(result, Refused):
                reason = (
                    result.reason if result.line is None else f"line {result.line}: {result.reason}"
                )
                continue
            digest = fingerprint(result.sources)
            if digest in known:
                reason = "every version it gives has been tried"
                continue
            known.add(digest)
            candidates.append(_candidate(parent, plan, point, result))
        return tuple(candidates) or Refusal(reason)

    def repair(
        self, plan: Plan, failed: Candidate, evaluation: Evaluation, history: History
    ) -> Candidate | Refusal:
        """Nothing: a rewrite does the same again."""
        return Refusal("a rewrite cannot be mended")


def program_of(problem: Problem, candidate: Candidate) -> Program:
    """The candidate as rewrites see it, with what the definition promises about sizes."""
    multiples = {
        name: axis.domain.multiple_of
        for name, axis in problem.definition.axes.items()
        if isinstance(axis, AxisVar) and axis.domain is not None and axis.domain.multiple_of > 1
    }
    return Program(sources=candidate.sources, entry=problem.spec.entry_point, multiples=multiples)


def _candidate(parent: Candidate, plan: Plan, point: ParameterPoint, result: Applied) -> Candidate:
    where = f" ({point})" if str(point) else ""
    return Candidate(
        sources=dict(result.sources),
        parent=parent.id,
        title=f"{plan.technique}{where}: {result.summary}",
    )


def _matches(point: ParameterPoint, plan: Plan) -> bool:
    values = dict(point.values)
    return all(values.get(name) == value for name, value in plan.parameters.items())
