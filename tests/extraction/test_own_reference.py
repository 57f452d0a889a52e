"""Which functions of a framework's tests are taken for references, and what is written of them."""

import ast

import numpy as np
import pytest

from astra_kernels.extraction.draft import OWN_ORACLE, Draft
from astra_kernels.extraction.own_reference import own_references, with_reference
from astra_kernels.extraction.project import Project, Release


def draft(**changes):
    values = {
        "op_type": "extracted",
        "description": f"void scale(...).{OWN_ORACLE}",
        "axes": {"rows": {"type": "var"}, "columns": {"type": "var"}},
        "inputs": {
            "input": {"shape": ["rows", "columns"], "dtype": "float16"},
            "scale": {"shape": ["rows"], "dtype": "float32"},
            "eps": {"shape": None, "dtype": "float64"},
        },
        "outputs": {"out": {"shape": ["rows", "columns"], "dtype": "float16"}},
        "arguments": [],
        "sizes": (),
        "untimed": 0,
    }
    return Draft(**{**values, **changes})


@pytest.fixture
def found(tmp_path):
    """References for `add_scale` in a file of tests."""

    def find(text, path="tests/test_scale.py", **changes):
        file = tmp_path / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
        project = Project(tmp_path, Release("engine", "1.2"))
        return own_references(project, "add_scale", draft(**changes))

    return find


BODY = "    return x * s[:, None] + eps\n\n\n# engine.add_scale\n"


@pytest.mark.parametrize(
    "name",
    ["add_scale_ref", "ref_add_scale", "torch_add_scale", "_add_scale_reference", "naive_add_scale_impl", "scale_ref"],
)  # fmt: skip
def test_names_that_say_what_it_is(found, name):
    (reference,) = found(f"def {name}(x, s, eps):\n{BODY}")
    assert (reference.name, reference.place) == (name, "tests/test_scale.py:1")


@pytest.mark.parametrize(
    "text",
    [
        f"def sub_scale_ref(x, s, eps):\n{BODY}",
        f"def test_add_scale(x, s, eps):\n{BODY}",
        f"def add_scale(x, s, eps):\n{BODY}",
        f"def add_scale_ref(x, s):\n{BODY}",
        f"def add_scale_ref(x, s, eps, bias):\n{BODY}",
        f"def add_scale_ref(*tensors):\n{BODY}",
        f"def add_scale_ref(x, s, eps, **more):\n{BODY}",
        "def add_scale_ref(x, s, eps):\n    return engine.add_scale(x, s, eps)\n",
        "def helper(x):\n    return engine.add_scale(x)\n\ndef add_scale_ref(x, s, eps):\n    return helper(x)\n",
        f"import engine\n\ndef add_scale_ref(x, s, eps):\n    engine.warm()\n{BODY}",
        f"from .common import wide\n\ndef add_scale_ref(x, s, eps):\n    wide()\n{BODY}",
        f"def add_scale_ref(x, s, eps):\n    import engine\n{BODY}",
        f"def add_scale_ref(x, s, eps):\n    x = unknown(x)\n{BODY}",
    ],
    ids=[
        "another operator", "a test", "the operator", "too few parameters", "too many", "any number", "any names",
        "calls the operator", "calls it through a helper", "needs the framework", "needs another file", "imports inside",
        "a name from nowhere",
    ],
)  # fmt: skip
def test_what_is_no_reference(found, text):
    assert found(text) == ()


def test_a_file_that_is_no_test_is_not_looked_at(found):
    assert found(f"def add_scale_ref(x, s, eps):\n{BODY}", path="engine/ops.py") == ()


WHOLE = '''\
#!/usr/bin/env python3
# SPDX-License-Identifier: MIT

import math
from functools import cache

import numpy as np
import pytest

FACTOR = math.sqrt(4.0)


@cache
def factor():
    return FACTOR


def unrelated():
    return engine.add_scale()


@pytest.mark.skip
def add_scale_ref(x, scale, *, eps=1.0, wide=np.float64):
    """What it says."""
    doubled = [value * factor() for value in x]
    return np.stack(doubled).astype(wide) * scale[:, None] + eps
'''


def test_it_comes_with_what_it_needs_and_no_more_and_gives_what_it_gave(found):
    (reference,) = found(WHOLE)
    assert reference.text.startswith("# SPDX-License-Identifier: MIT\n")
    tree = ast.parse(reference.text)
    names = [n.name for n in tree.body if isinstance(n, ast.FunctionDef)]
    assert names == ["factor", "add_scale_ref", "run"]
    assert "pytest" not in reference.text and "#!" not in reference.text
    space = {}
    exec(compile(tree, "reference.py", "exec"), space)
    x, scale = np.arange(6.0).reshape(2, 3), np.array([1.0, 10.0])
    (out,) = space["run"](x, scale, 0.5)
    np.testing.assert_array_equal(out, x * 2.0 * scale[:, None] + 0.5)


def test_results_in_place_and_of_other_shapes(found):
    outputs = {
        "input_out": {"shape": ["rows", "columns"], "dtype": "float16", "in_place_of": "input"},
        "flat": {"shape": ["rows", 1], "dtype": "int8"},
    }
    text = "def add_scale_ref(input, scale, eps):\n    input += eps\n    return input, scale * 2  # add_scale\n"
    (reference,) = found(text, outputs=outputs)
    space = {}
    exec(reference.text, space)
    changed, flat = space["run"](np.zeros((2, 3)), np.ones(2), 1.0)
    assert changed.tolist() == [[1.0] * 3] * 2 and flat.tolist() == [[2.0], [2.0]]
    made = with_reference(draft(outputs=outputs), reference)
    assert (
        made.outputs["flat"]["compare"] == "quantised"
        and "compare" not in made.outputs["input_out"]
    )
    assert made.description == "void scale(...)."
    only = {"input_out": outputs["input_out"]}
    (silent,) = found(text.replace("return input, scale * 2", "pass"), outputs=only)
    space = {}
    exec(silent.text, space)
    assert space["run"](np.zeros((1, 1)), np.ones(1), 1.0)[0].tolist() == [[1.0]]


def test_one_that_is_given_to_a_test_beside_the_operator_is_the_last_choice(found):
    text = f"""\
def by_hand(x, s, eps):
{BODY}

def add_scale_ref(x, s, eps):
{BODY}

@pytest.mark.parametrize("function, wanted", [(engine.add_scale, by_hand)])
def test_it(function, wanted):
    assert function() == wanted()
"""
    assert [r.name for r in found(text)] == ["add_scale_ref", "by_hand"]
