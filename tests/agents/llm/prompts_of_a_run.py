"""What every role is asked in the third round of the recorded run, as text."""

from pathlib import Path

from pydantic_ai.messages import ModelResponse, TextPart
from pydantic_ai.models.function import FunctionModel

from astra_kernels.agents.llm.coding import LlmCoder
from astra_kernels.agents.llm.planning import LlmPlanner
from astra_kernels.agents.llm.profiling import LlmProfiler
from astra_kernels.agents.llm.single import SingleAgent
from astra_kernels.agents.llm.testing import LlmTester
from astra_kernels.app.runs import read_run

GOLDEN = Path(__file__).parent / "golden"
RUN = Path(__file__).parent / "run"
"""A run that is kept as it is when scripts/record makes another: prompts change when somebody changes a prompt."""
NOTES = "launch_geometry gained 1.12 [1.05, 1.20] in 3 of 4 runs of like problems."


class Listener:
    """A model that keeps what it is asked first, and never answers usably."""

    def __init__(self):
        self.asked = ""
        self.model = FunctionModel(self._answer)

    def _answer(self, messages, info):
        self.asked = (
            self.asked or f"{info.instructions}\n{'=' * 72}\n\n{messages[0].parts[0].content}"
        )
        return ModelResponse(parts=[TextPart("")], finish_reason="content_filter")


def heard(ask):
    listener = Listener()
    ask(listener.model)
    return listener.asked


def prompts(run=None, number=3):
    """Every role's first question by name, in round `number` of a run, from what was known when it began."""
    run = run or read_run(RUN)
    problem, whole = run.problem, run.history
    history = whole.before(number)
    parent = history.fastest().candidate
    evaluation = history.evaluation_of(parent.id)
    diagnosis = whole.diagnoses[number - 1]
    plan = whole.plans[number][0]
    bad = whole.attempts[3]
    return {
        "testing": heard(lambda m: LlmTester(m).propose(problem)),
        "profiling": heard(lambda m: LlmProfiler(problem, m).diagnose(parent, evaluation)),
        "planning": heard(
            lambda m: LlmPlanner(problem, m, notes=NOTES).plan(parent, diagnosis, history)
        ),
        "coding": heard(lambda m: LlmCoder(problem, m, candidates=2).write(plan, parent, history)),
        "repair": heard(
            lambda m: LlmCoder(problem, m).repair(bad.plan, bad.candidate, bad.evaluation, history)
        ),
        "single": heard(
            lambda m: SingleAgent(problem, m, notes=NOTES).write(plan, parent, history)
        ),
    }
