"""The code on the pages of docs/seams is a part that works: each is run in the place that it is written for."""

import importlib.util
import itertools
import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from astra_kernels.agents.rules.profiling import RuleProfiler
from astra_kernels.agents.rules.testing import RuleTester
from astra_kernels.errors import NothingToExport, ProblemError
from astra_kernels.evaluation.hosted import HostedEvaluator
from astra_kernels.importers.problem_dir import load_problem
from astra_kernels.optimize import Optimizer
from astra_kernels.protocols import Refusal
from astra_kernels.records.candidate import Candidate
from astra_kernels.records.evaluation import Modelled, Passed
from astra_kernels.records.history import History
from astra_kernels.records.journal import Journal
from astra_kernels.records.plan import Plan
from astra_kernels.records.run import Budget, RunConfig, RunStarted
from astra_kernels.rounds import Team

SEAMS = Path(__file__).resolve().parents[2] / "docs" / "seams"
PAGES = sorted(SEAMS.glob("*.md"))


def code_of(page):
    (text,) = re.findall(r"^```python\n(.*?)^```$", page.read_text(), re.MULTILINE | re.DOTALL)
    return text


@pytest.fixture(scope="module")
def seam(tmp_path_factory):
    """The module that a page's code makes."""
    place = tmp_path_factory.mktemp("seams")

    def module(name):
        path = place / f"seam_{name}.py"
        path.write_text(code_of(SEAMS / f"{name}.md"))
        spec = importlib.util.spec_from_file_location(path.stem, path)
        made = importlib.util.module_from_spec(spec)
        # Dataclasses look their module up by name.
        sys.modules[path.stem] = made
        spec.loader.exec_module(made)
        return made

    return module


@pytest.fixture(scope="module")
def kernel(repository):
    return repository / "docs" / "tutorial"


@pytest.fixture(scope="module")
def problem_dir(kernel, tmp_path_factory):
    """The tutorial's problem, cut down to what is quick."""
    place = tmp_path_factory.mktemp("problem")
    for name in ("definition.json", "reference.py", "workload.jsonl"):
        shutil.copy(kernel / name, place)
    (place / "baseline").mkdir()
    shutil.copy(kernel / "temperature_softmax.cu", place / "baseline")
    arguments = [
        "logits",
        "temperature",
        "out",
        *({"name": n, "ctype": "int32"} for n in ("rows", "vocab")),
        "stream",
    ]
    entry = "temperature_softmax.cu::temperature_softmax"
    spec = {"language": "cuda", "binding": "c", "entry_point": entry, "arguments": arguments}
    solution = {
        "name": "b",
        "definition": "temperature_softmax",
        "spec": spec,
        "sources": [{"path": "temperature_softmax.cu"}],
    }
    (place / "baseline" / "solution.json").write_text(json.dumps(solution))
    return place


@pytest.fixture(scope="module")
def problem(problem_dir):
    return load_problem(problem_dir)


@pytest.fixture(scope="module")
def history(seam, problem, build_cache):
    """A run whose host, strategy, planner and coder are those of the pages."""
    agents, strategy = seam("agents"), seam("strategy").UntilFirstWin(rounds=3)
    host = seam("hosts").HereHost(problem, build_cache)
    config = RunConfig(device="sim:h200", budget=Budget(rounds=3), candidates_per_round=1)
    events = [
        RunStarted(
            at="t", elapsed_s=0, config=config, problem=problem.name,
            problem_digest=problem.digest, astra_version="0",
        )
    ]  # fmt: skip
    team = Team(
        RuleTester(),
        RuleProfiler(),
        agents.WiderBlocksPlanner(),
        agents.WiderBlocksCoder(),
        strategy,
    )
    evaluator = HostedEvaluator(problem, "sim:h200", host)
    journal = Journal(History.fold(events), events.append)
    return Optimizer(
        problem, config, team, evaluator, journal, fresh_seed=itertools.count(1000).__next__
    ).run()


def test_agents_strategy_and_host_make_a_run(history):
    (attempt,) = history.attempts
    assert "constexpr int kThreads = 512;" in attempt.candidate.sources["temperature_softmax.cu"]
    assert isinstance(attempt.evaluation, Passed)
    assert isinstance(attempt.evaluation.geomean, Modelled)
    assert history.finished.reason == "the first win"
    assert history.finished.best == attempt.candidate.id
    assert history.remeasured[-1].holds
    # The seeds of the host's answer are told where figures are reported.
    assert history.remeasured[-1].evaluation.hidden_seed is not None


def test_the_coder_says_why_it_does_nothing(seam, history):
    parent = Candidate(sources={"k.cu": "constexpr int kThreads = 1024;"})
    plan = history.attempts[0].plan
    refusal = seam("agents").WiderBlocksCoder().write(plan, parent, history)
    assert isinstance(refusal, Refusal) and "1024" in refusal.reason


def test_the_strategy_ends_when_the_rounds_are_over(seam):
    over = seam("strategy").UntilFirstWin(rounds=2).finished(History(rounds_ended=2))
    assert over == "2 rounds done"
    assert seam("strategy").UntilFirstWin(rounds=2).finished(History(rounds_ended=1)) is None


def test_the_exporter_says_that_a_time_is_modelled(seam, problem, history, tmp_path):
    target = tmp_path / "winner.diff"
    seam("exporters").write_diff(problem, history, target)
    text = target.read_text()
    assert text.startswith("twice the threads: modelled gain ") and "nothing was measured" in text
    assert "+constexpr int kThreads = 512;" in text


def test_the_exporter_refuses_a_run_without_a_winner(seam, problem, tmp_path):
    with pytest.raises(NothingToExport):
        seam("exporters").write_diff(problem, History(), tmp_path / "winner.diff")
    assert not (tmp_path / "winner.diff").exists()


def toml_of(problem_dir):
    """The tutorial's problem in the importer's format."""
    definition = json.loads((problem_dir / "definition.json").read_text())
    spec = json.loads((problem_dir / "baseline" / "solution.json").read_text())["spec"]
    workloads = [
        json.loads(line) for line in (problem_dir / "workload.jsonl").read_text().splitlines()
    ]
    record = {
        "reference": "reference.py",
        "definition": definition,
        "baseline": spec,
        "workloads": workloads,
    }
    return "\n".join(f"{name} = {_inline(value)}" for name, value in record.items())


def _inline(value):
    if isinstance(value, dict):
        return "{" + ", ".join(f'"{k}" = {_inline(v)}' for k, v in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(_inline, value)) + "]"
    return json.dumps(value)


def test_the_importer_reads_the_same_problem(seam, problem, problem_dir, tmp_path):
    for path in (problem_dir / "reference.py", problem_dir / "baseline" / "temperature_softmax.cu"):
        shutil.copy(path, tmp_path)
    (tmp_path / "problem.toml").write_text(toml_of(problem_dir))
    assert seam("importers").load_toml(tmp_path / "problem.toml") == problem


def test_the_importer_names_what_is_wrong(seam, problem_dir, tmp_path):
    path = tmp_path / "problem.toml"
    path.write_text(toml_of(problem_dir).replace("temperature_softmax.cu::", "missing.cu::"))
    with pytest.raises(ProblemError, match=r"missing\.cu"):
        seam("importers").load_toml(path)


EDIT = """
### temperature_softmax.cu
<<<<<<< SEARCH
constexpr int kThreads = 256;
=======
constexpr int kThreads = 1024;
>>>>>>> REPLACE
"""


def test_the_model_answers_a_coding_agent(seam, problem):
    from astra_kernels.agents.llm.coding import LlmCoder

    asked = []

    def answer(messages):
        asked.append(messages)
        return EDIT

    coder = LlmCoder(problem, seam("models").FunctionModel("function:edit", answer))
    plan = Plan(
        id="p", parent=problem.baseline.id, technique="launch_geometry",
        hypothesis="h", predicted_gain=1.1, risk="r",
    )  # fmt: skip
    (candidate,) = coder.write(plan, problem.baseline, History(baseline=problem.baseline))
    assert "kThreads = 1024" in candidate.sources["temperature_softmax.cu"]
    assert "kThreads = 256" in "".join(m.text for m in asked[0])


def test_the_device_calls_host_code(seam, tmp_path):
    from astra_kernels.devices.device import CArgument, ProgramRefused

    source, library = tmp_path / "add.cpp", tmp_path / "libadd.so"
    source.write_text(
        'extern "C" int add(const float* x, float* y, float a, long n) {\n'
        "  for (long i = 0; i < n; ++i) y[i] += a * x[i];\n  return n < 0;\n}\n"
    )
    subprocess.run(["g++", "-shared", "-fPIC", "-o", library, source], check=True)
    device = seam("device").HostDevice()
    x, y = np.arange(5, dtype=np.float32), np.ones(5, np.float32)
    places = [device.allocate(array.nbytes) for array in (x, y)]
    for place, array in zip(places, (x, y), strict=True):
        device.write(place, array)
    arguments = [
        *(CArgument("pointer", place) for place in places),
        CArgument("float32", 0.5),
        CArgument("int64", 5),
    ]
    report = device.call(device.load(library, "add", {}), arguments)
    back = np.empty(5, np.float32)
    device.read(places[1], back)
    assert report.code == 0 and report.fault is None
    np.testing.assert_array_equal(back, 1 + 0.5 * x)
    with pytest.raises(ProgramRefused):
        device.load(library, "subtract", {})
    device.close()


VOID = """
#include <cuda_runtime.h>
#include <cstdint>
__global__ void scale_kernel(const float* x, float* y, float a, int64_t n) {
  int64_t i = blockIdx.x * int64_t{blockDim.x} + threadIdx.x;
  if (i < n) y[i] = a * x[i];
}
extern "C" void scale(void* x, void* y, float a, int64_t n, cudaStream_t stream) {
  scale_kernel<<<(n + 127) / 128, 128, 0, stream>>>((const float*)x, (float*)y, a, n);
}
"""


def test_the_binding_calls_a_function_that_returns_nothing(seam, build_cache, tmp_path):
    import os

    from astra_kernels.devices.device import CArgument
    from astra_kernels.devices.opening import open_device
    from astra_kernels.jobs.programs import Workshop
    from astra_kernels.jobs.spec import ProgramSpec
    from astra_kernels.languages.bindings.adapter import ENTRY, MESSAGE_BYTES, Parameter
    from astra_kernels.languages.cuda.outcome import Built
    from astra_kernels.languages.cuda.toolchain import find_toolchain

    (tmp_path / "baseline").mkdir()
    (tmp_path / "baseline" / "scale.cu").write_text(VOID)
    tensor = Parameter(ctype="pointer", dtype="float32", shape=("n",))
    adapter = seam("bindings").void_adapter(
        "scale", [tensor, tensor, Parameter(ctype="float32")], ["n"]
    )
    shop = Workshop(tmp_path, find_toolchain(os.environ), build_cache, 120.0, adapter)
    program = ProgramSpec(
        directory="baseline", sources=("scale.cu",), entry_symbol="scale", flags=()
    )
    built = shop.build(program)
    assert isinstance(built, Built), built
    device = open_device("sim:h200", shop.cuda_runtime)
    x, y = np.arange(1000, dtype=np.float32), np.zeros(1000, np.float32)
    places = [device.allocate(x.nbytes), device.allocate(y.nbytes), device.allocate(MESSAGE_BYTES)]
    device.write(places[0], x)
    arguments = [
        CArgument("pointer", places[0]),
        CArgument("pointer", places[1]),
        CArgument("float32", 3.0),
        CArgument("int64", 1000),
        CArgument("stream", device.stream),
        CArgument("pointer", places[2]),
    ]
    report = device.call(device.load(built.library, ENTRY, {}), arguments)
    device.read(places[1], y)
    assert report.code == 0 and report.fault is None, report
    assert [launch.grid for launch in report.launches] == [(8, 1, 1)]
    np.testing.assert_array_equal(y, 3 * x)


@pytest.mark.parametrize("page", PAGES, ids=lambda p: p.stem)
def test_a_page_is_short(page):
    assert len(page.read_text().splitlines()) < 80


def test_the_list_names_every_seam(repository):
    text = (repository / "docs" / "seams.md").read_text()
    assert set(re.findall(r"\]\(seams/(\w+)\.md\)", text)) == {page.stem for page in PAGES}


CONFORMS = """
from astra_kernels.devices.device import Device
from astra_kernels.evaluation.hosted import Host
from astra_kernels.models.text_model import TextModel
from pathlib import Path
from astra_kernels.protocols import CodingAgent, PlanningAgent, Strategy
from astra_kernels.records.problem import Problem
import seam_agents, seam_bindings, seam_device, seam_exporters, seam_hosts, seam_importers, seam_models, seam_strategy

device: Device = seam_device.HostDevice()
planner: PlanningAgent = seam_agents.WiderBlocksPlanner()
coder: CodingAgent = seam_agents.WiderBlocksCoder()
strategy: Strategy = seam_strategy.UntilFirstWin(1)
kind: type[TextModel] = seam_models.FunctionModel


def host(problem: Problem, path: Path) -> Host:
    return seam_hosts.HereHost(problem, path)
"""


@pytest.mark.full
def test_the_parts_have_the_types_of_their_seams(tmp_path, repository):
    for page in PAGES:
        (tmp_path / f"seam_{page.stem}.py").write_text(code_of(page))
    (tmp_path / "conforms.py").write_text(CONFORMS)
    done = subprocess.run(
        [sys.executable, "-m", "mypy", "--strict", "--config-file", repository / "pyproject.toml",
         "--cache-dir", tmp_path / "cache", *sorted(tmp_path.glob("*.py"))],
        cwd=repository, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout
