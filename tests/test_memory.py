"""What is remembered of earlier runs."""

from pathlib import Path

import pytest

from astra_kernels.app.runs import read_run
from astra_kernels.errors import UserError
from astra_kernels.memory import Note, notes_of, recall, remember, told

RUN = Path(__file__).parent / "recorded" / "sigmoid"


@pytest.fixture(scope="module")
def run():
    return read_run(RUN)


def note(**changes):
    fields = {
        "kernel": "activation",
        "gpu": "cuda:0 NVIDIA H200",
        "technique": "fast_math",
        "title": "t",
        "outcome": "passed",
        "kind": "measured",
        "gain": 1.2,
        "candidate": "c",
        "run": "r",
    }
    return Note(**{**fields, **changes})


def test_a_run_is_remembered_once_with_its_failures(tmp_path, run):
    file = tmp_path / "deep" / "memory.jsonl"
    notes = notes_of(run.history, run.problem, "sigmoid")
    assert len(notes) == len(run.history.attempts)
    assert remember(file, notes) == len(notes)
    assert remember(file, notes) == 0
    assert recall(file) == notes
    text = told(recall(file), run.problem)
    assert all(f"{a.plan.technique} on sim:h200" in text for a in run.history.attempts)
    assert "modelled gain over the baseline" in text


def test_a_planner_hears_of_its_kind_of_kernel_by_technique_and_gpu(run):
    kernel = run.problem.definition.op_type or run.problem.definition.name
    notes = [
        note(kernel=kernel, gain=1.1, candidate="1"),
        note(kernel=kernel, gain=1.3, candidate="2"),
        note(kernel=kernel, gain=None, kind="none", outcome="incorrect", candidate="3"),
        note(kernel=kernel, gpu="sim:h200", kind="modelled", gain=2.0),
        note(kernel="another", technique="unroll"),
    ]
    assert told(notes, run.problem).splitlines() == [
        "fast_math on cuda:0 NVIDIA H200: tried 3 times; measured gain over the baseline 1.100 to 1.300, "
        "median 1.200; failed: incorrect",
        "fast_math on sim:h200: tried 1 times; modelled gain over the baseline 2.000 to 2.000, median 2.000",
    ]


def test_a_hand_edit_loses_nothing(tmp_path):
    file = tmp_path / "memory.jsonl"
    remember(file, [note(candidate="1"), note(candidate="2")])
    kept = file.read_text().splitlines()[0]
    file.write_text(f"# fast math pays\n{kept}")
    remember(file, [note(candidate="3")])
    assert [n.candidate for n in recall(file)] == ["1", "3"]
    assert file.read_text().startswith("# fast math pays\n")


def test_bytes_that_are_no_text_lose_nothing(tmp_path):
    file = tmp_path / "memory.jsonl"
    remember(file, [note(candidate="1")])
    damaged = file.read_bytes() + b"\xff\xfe\n"
    file.write_bytes(damaged)
    assert remember(file, [note(candidate="2")]) == 1
    assert [n.candidate for n in recall(file)] == ["1", "2"]
    assert file.read_bytes().startswith(damaged)


def test_no_memory_is_an_empty_one_and_an_unwritable_one_says_so(tmp_path):
    assert recall(tmp_path / "none") == ()
    (tmp_path / "file").write_text("")
    with pytest.raises(UserError, match="--no-memory"):
        remember(tmp_path / "file" / "memory.jsonl", [note()])
