"""A coding agent's whole path on an example: the real server, the real compiler, the simulated device."""

import json
import shutil
from dataclasses import dataclass, field
from pathlib import Path

import jsonschema
import pytest

from astra_kernels.app import commands, reports
from astra_kernels.app.compose import Whereabouts
from astra_kernels.errors import RunError

from .conftest import events, talking

FILE = "silu_and_mul.cu"
KEPT = {"silu-16x4096", "silu-64x8192", "silu-5x1"}
SLOW = "return x / (1.0f + expf(-x));"
QUICK = "return __fdividef(x, 1.0f + __expf(-x));"


@dataclass
class Session:
    """What the tools answered on the way."""

    tools: dict
    answers: dict = field(default_factory=dict)
    progress: dict = field(default_factory=dict)
    sources: dict = field(default_factory=dict)
    bad_candidate: str = ""

    @property
    def directory(self):
        return self.answers["load"]["run_directory"]


@pytest.fixture(scope="module")
def session(repository, tmp_path_factory):
    directory = tmp_path_factory.mktemp("path")
    shutil.copytree(repository / "examples" / "silu_and_mul", directory / "silu_and_mul")
    workloads = directory / "silu_and_mul" / "workload.jsonl"
    kept = [w for w in workloads.read_text().splitlines() if json.loads(w)["uuid"] in KEPT]
    assert len(kept) == len(KEPT)
    workloads.write_text("\n".join(kept))
    with talking(directory) as talk:
        session = Session(talk.tools())

        def ask(name, tool, **arguments):
            talk.progress.clear()
            session.answers[name] = talk.answer(tool, **arguments)
            session.progress[name] = list(talk.progress)
            return session.answers[name]

        baseline = ask("load", "load_problem", problem="silu_and_mul")["sources"][FILE]
        assert SLOW in baseline
        ask("diagnose", "diagnose")
        wrong = {FILE: baseline.replace("1.0f + expf", "1.001f + expf")}
        ask("wrong", "verify", candidate={"sources": wrong, "title": "off by a little"})
        right = {
            "sources": {FILE: baseline.replace(SLOW, QUICK)},
            "title": "fast math",
            "hypothesis": "fewer instructions for the division",
            "technique": "fast_math",
            "predicted_gain": 1.05,
        }
        identifier = ask("right", "verify", candidate=right)["candidate"]
        session.bad_candidate = talk.fault("confirm", candidate=identifier)
        said = {k: right[k] for k in ("hypothesis", "technique", "predicted_gain")}
        ask("bench", "bench", candidate={"id": identifier, **said})
        ask("again", "bench", candidate=right)
        ask("confirm", "confirm", candidate=identifier)
        ask("confirm again", "confirm", candidate=identifier)
        ask("history", "history")
        ask("report", "report")
        ask("finish", "finish")
        session.after_the_end = talk.fault(
            "verify", candidate={"sources": {FILE: baseline + "\n"}, "title": "too late"}
        )
        yield session


def test_every_tool_has_schemas_and_every_answer_keeps_them(session):
    assert {"load_problem", "diagnose", "verify", "bench", "confirm", "history", "report"} <= set(
        session.tools
    )
    assert "export" in session.tools
    used = {
        "load": "load_problem",
        "wrong": "verify",
        "right": "verify",
        "again": "bench",
        "confirm again": "confirm",
    }
    for name, answer in session.answers.items():
        tool = session.tools[used.get(name, name)]
        assert tool.description and tool.input_schema["type"] == "object"
        jsonschema.validate(answer, tool.output_schema)
    reading = {name for name, tool in session.tools.items() if tool.annotations.read_only_hint}
    assert reading == {"history"}
    described = session.tools["verify"].input_schema["$defs"]["CandidateGiven"]["properties"]
    assert all("description" in p for p in described.values())


def test_a_problem_is_told_with_all_that_a_coder_needs(session):
    load = session.answers["load"]
    assert load["entry_point"] == "silu_and_mul.cu::silu_and_mul"
    assert "extern" in load["description"] and "def run" in load["description"]
    assert "cudaMallocAsync" in load["rules"]
    assert {w["uuid"] for w in load["workloads"]} >= {"silu-16x4096", "silu-5x1"}
    assert load["baseline"]["passed"] and load["baseline"]["time"]["ratio"] == pytest.approx(1.0)
    assert load["confirmations_left"] == 3


def test_a_diagnosis_cites_counters_and_lines(session):
    found = session.answers["diagnose"]
    assert found["evidence"][0]["metric"] in found["summary"]
    lines = session.answers["load"]["sources"][FILE].splitlines()
    assert found["lines"]
    for busy in found["lines"]:
        assert busy["code"] == lines[busy["line"] - 1].strip()


def test_a_wrong_candidate_is_told_where_it_is_wrong(session):
    wrong = session.answers["wrong"]
    assert (wrong["outcome"], wrong["passed"], wrong["time"]) == ("incorrect", False, None)
    assert "out[" in wrong["message"] and "expected" in wrong["message"]


def test_a_right_candidate_passes_and_its_time_is_modelled(session):
    right, bench = session.answers["right"], session.answers["bench"]
    assert right["passed"] and right["time"] is None and len(right["hidden"]) >= 5
    assert bench["beats_baseline"] and not bench["recorded"]
    assert bench["time"]["kind"] == "modelled"
    assert bench["time"]["low"] < bench["time"]["ratio"] < bench["time"]["high"]
    assert {w["uuid"] for w in bench["workloads"] if w["time"]} >= {"silu-16x4096"}
    assert bench["kernels"][0]["registers"] > 0
    assert "modelled" in bench["message"] and "speedup" not in bench["message"]


def test_the_same_sources_are_judged_once(session):
    again = session.answers["again"]
    assert again["recorded"]
    assert again["time"] == session.answers["bench"]["time"]
    kinds = [e["event"] for e in events(session.directory)]
    assert kinds.count("candidate_evaluated") == 2
    assert kinds.count("winner_remeasured") == 1


def test_only_what_was_timed_gets_a_second_look_and_only_one(session):
    assert "only what passed bench" in session.bad_candidate
    look = session.answers["confirm"]
    assert look["verdict"] == "not established"
    assert {n: c["verdict"] for n, c in look["claims"].items()} == {
        "correct": "held",
        "safe": "held",
        "faster": "not established",
    }
    again = session.answers["confirm again"]
    assert again == {**look, "recorded": True} and look["confirmations_left"] == 2


def test_progress_names_the_stages(session):
    told = session.progress["bench"]
    assert [p for p, _ in told] == sorted(p for p, _ in told)
    identifier = session.answers["bench"]["candidate"]
    assert any(f"timing {identifier}: through build" in m and "correctness" in m for _, m in told)


def test_nothing_tells_of_hidden_workloads_but_their_kinds(session):
    """Not the answers, and not the log, which the agent can read."""
    log = events(session.directory)
    answers = json.dumps(session.answers)
    assert '"seed"' not in answers and str(log[0]["config"]["seed"]) not in answers
    evaluations = [e["evaluation"] for e in log if "evaluation" in e]
    assert len(evaluations) == 5
    rows = [w for e in evaluations for w in e.get("workloads", ()) if w["hidden"]]
    assert len(rows) >= 20
    assert {(w["uuid"], w["seed"], json.dumps(w["axes"])) for w in rows} == {("hidden", 0, "{}")}
    assert {e["hidden_seed"] for e in evaluations} == {None}


def test_history_and_report_tell_what_happened(session):
    history = session.answers["history"]
    assert [a["title"] for a in history["attempts"]] == ["off by a little", "fast math"]
    assert history["attempts"][1]["verdict"] == "not established"
    assert history["best"] == session.answers["bench"]["candidate"]
    assert session.answers["report"]["verdict"] == "not finished"
    finish = session.answers["finish"]
    assert finish["best"] == history["best"] and finish["verdict"] == "not established"
    assert "off by a little" in Path(finish["report"]).read_text()
    diff = (Path(finish["best_directory"]) / "changes.diff").read_text()
    assert f"+__device__ __forceinline__ float silu(float x) {{ {QUICK} }}" in diff
    assert "has ended" in session.after_the_end


def test_the_run_is_an_ordinary_one_except_that_nobody_here_can_go_on(session, capsys):
    directory = Path(session.directory)
    assert commands.show(directory, as_json=False) == 0
    assert "fast math" in capsys.readouterr().out
    assert reports.report(directory, None, as_markdown=True) == 0
    assert "outside: whoever called the tools" in capsys.readouterr().out
    before = len(events(directory))
    with pytest.raises(RunError, match="not resumed or replayed"):
        commands.resume(directory, Whereabouts(), as_json=True)
    with pytest.raises(RunError, match="not resumed or replayed"):
        commands.replay_run(directory)
    assert len(events(directory)) == before
