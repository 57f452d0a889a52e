"""The loop with a model in every role: real compiler, real judge, simulated device."""

import json

import pytest

from astra_kernels.agents.llm.coding import LlmCoder
from astra_kernels.agents.llm.hybrid import HybridCoder
from astra_kernels.agents.llm.planning import LlmPlanner
from astra_kernels.agents.llm.profiling import LlmProfiler
from astra_kernels.agents.llm.single import SingleAgent
from astra_kernels.agents.llm.testing import LlmTester
from astra_kernels.app.compose import local_evaluator
from astra_kernels.optimize import Optimizer
from astra_kernels.records.history import History
from astra_kernels.records.journal import Journal
from astra_kernels.records.run import Budget, RunConfig
from astra_kernels.rounds import Team
from astra_kernels.search import Linear

WAVES = "launch__waves_per_multiprocessor"
WORKLOADS = {"workloads": [{"sizes": {"rows": 1, "columns": 513}, "values": {"x": "large"}}]}
PLANS = {
    "plans": [
        {"technique": "launch_geometry", "hypothesis": "h", "predicted_gain": 2.0, "risk": "r"}
    ]
}


def edit(old, new, title="t"):
    return (
        f"Title: {title}\n### sigmoid.cu\n<<<<<<< SEARCH\n{old}\n=======\n{new}\n>>>>>>> REPLACE\n"
    )


LAUNCH = "  sigmoid_rows<<<rows, {}, 0, stream>>>(out, in, scale, columns);"
LOOP = "  for (int i = threadIdx.x; i < columns; i += blockDim.x) {{{}"
WIDER = edit(LAUNCH.format(128), LAUNCH.format(512), "512 threads")
BROKEN = edit(LOOP.format(""), LOOP.format(" int i"), "no semicolon")
MENDED = edit(LOOP.format(" int i"), LOOP.format("\n    if (i == 512) break;"), "leave one out")


def run(problem, tmp_path, rounds, **roles):
    config = RunConfig(device="sim:h200", budget=Budget(rounds=rounds), candidates_per_round=2)
    journal = Journal(History(config=config), lambda event: None)
    with local_evaluator(problem, "sim:h200", tmp_path) as evaluator:
        team = Team(strategy=Linear(config.budget), **roles)
        return Optimizer(problem, config, team, evaluator, journal, lambda: 7).run()


def test_a_team_of_models_makes_a_kernel_faster(script, problem, tmp_path):
    waves = {"metric": WAVES, "value": 0.003788, "meaning": "idle"}
    diagnosis = {"bottleneck": "parallelism", "summary": "few threads", "evidence": [waves]}
    planning = script(json.dumps(PLANS))
    history = run(
        problem,
        tmp_path,
        rounds=2,
        testing=LlmTester(script(json.dumps(WORKLOADS)).model),
        profiling=LlmProfiler(problem, script(json.dumps(diagnosis)).model),
        planning=LlmPlanner(problem, planning.model),
        coding=LlmCoder(problem, script(BROKEN, MENDED, WIDER).model),
    )
    assert [w.uuid for w in history.accepted_workloads] == ["test-rows1-columns513-x.large"]
    assert [a.evaluation.outcome for a in history.attempts] == [
        "build_failed",
        "incorrect",
        "passed",
    ]
    assert history.finished.best == history.attempts[2].candidate.id
    assert history.diagnoses[0].summary == "few threads"
    assert history.attempts[1].candidate.parent == history.attempts[0].candidate.id
    second = planning.asked[1][1][0]
    assert "does not build: sigmoid.cu:" in second and "| incorrect on " in second


@pytest.mark.full
def test_one_agent_and_rewrites_of_its_code(script, problem, tmp_path):
    thought = {"diagnosis": "d", "technique": "occupancy", "hypothesis": "h", "predicted_gain": 1.2}
    agent = SingleAgent(problem, script(f"```json\n{json.dumps(thought)}\n```\n{WIDER}").model)
    tester = LlmTester(script(json.dumps(WORKLOADS)).model)
    history = run(
        problem,
        tmp_path,
        rounds=1,
        testing=tester,
        profiling=agent,
        planning=agent,
        coding=HybridCoder(problem, agent, variants=1),
    )
    first, variant = history.attempts
    assert first.candidate.title == "occupancy: 512 threads"
    assert variant.candidate.title.startswith("occupancy: 512 threads + rewrite ")
    assert (first.evaluation.outcome, variant.candidate.parent) == ("passed", problem.baseline.id)
