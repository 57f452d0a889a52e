"""The entry point stays what it was."""

from pathlib import Path

import pytest

from astra_kernels.agents.llm.entry_point import signature_text, trouble_with_entry_point
from astra_kernels.importers.problem_dir import load_problem

EXAMPLES = Path(__file__).parents[3] / "examples"
OWN = sorted(p for p in EXAMPLES.iterdir() if not p.name.startswith("flashinfer"))


@pytest.mark.parametrize("path", OWN, ids=lambda p: p.name)
def test_baselines_have_theirs(path):
    problem = load_problem(path)
    assert trouble_with_entry_point(problem, problem.baseline.sources) is None
    assert signature_text(problem).startswith(f'extern "C" int {problem.spec.entry_symbol}(')


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        ("int sigmoid(", "int sigmoid2(", "is missing"),
        ("int rows, int columns", "int columns", "other parameters"),
        ("int rows", "int64_t rows", "other parameters"),
        ("const float* in", "float* in", "other parameters"),
        ('extern "C" ', "", 'lost its extern "C"'),
    ],
)  # fmt: skip
def test_changes_are_told(problem, old, new, told):
    ((path, text),) = problem.baseline.sources.items()
    head, entry = text.rsplit("extern", 1)
    changed = {path: head + ("extern" + entry).replace(old, new)}
    assert changed[path] != text
    trouble = trouble_with_entry_point(problem, changed)
    assert told in trouble and "int sigmoid(float* out" in trouble


def test_names_layout_and_restrict_do_not_matter(problem):
    ((path, text),) = problem.baseline.sources.items()
    head, entry = text.rsplit("extern", 1)
    entry = entry.replace("float* out", "float *__restrict__\n  result").replace(
        "(out,", "(result,"
    )
    assert trouble_with_entry_point(problem, {path: f"{head}extern{entry}"}) is None


def test_a_file_that_is_gone_is_a_missing_entry_point(problem):
    assert "is missing" in trouble_with_entry_point(problem, {"other.cu": ""})
