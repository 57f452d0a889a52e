"""The example in docs/problems.md is a problem that loads, and its reference is right."""

import re

import numpy as np
import pytest

from astra_kernels.importers.problem_dir import load_problem
from astra_kernels.jobs.reference import Reference
from astra_kernels.records.definition import Definition
from astra_kernels.records.solution import SolutionSpec
from astra_kernels.records.workload import Workload


@pytest.fixture
def guide(repository):
    return (repository / "docs" / "problems.md").read_text()


@pytest.fixture
def problem_dir(guide, tmp_path):
    files = re.findall(r"^`([\w./]+)`:\n\n```\w+\n(.*?)^```$", guide, re.MULTILINE | re.DOTALL)
    for path, text in files:
        (tmp_path / path).parent.mkdir(exist_ok=True)
        (tmp_path / path).write_text(text)
    return tmp_path


def test_the_example_loads(problem_dir):
    problem = load_problem(problem_dir)
    assert problem.name == "scaled_add"
    assert set(problem.baseline.sources) == {"scaled_add.cu"}
    assert problem.definition.minimum_bytes({"n": 10}) == 60


def test_the_references_of_the_example_agree(problem_dir):
    reference = Reference(problem_dir / "reference.py")
    x, y = np.arange(5, dtype=np.float16), np.ones(5, np.float16)
    want = np.array([1, 1.5, 2, 2.5, 3])
    np.testing.assert_array_equal(reference.call("reference_fp64", [x, y, 0.5]), want)
    np.testing.assert_array_equal(reference.call("run", [x, y, 0.5]), want.astype(np.float16))


@pytest.mark.parametrize("record", [Definition, Workload, SolutionSpec])
def test_every_field_is_explained(guide, record):
    unexplained = {
        n for n in record.model_fields if f"`{n}`" not in guide and f".{n}`" not in guide
    }
    assert unexplained <= {"languages", "destination_passing_style"}
