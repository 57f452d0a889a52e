"""The oracle takes the most precise answer that a reference can give, and explains references that fail."""

import importlib.util

import numpy as np
import pytest

from astra_kernels.errors import SetupError, UserError
from astra_kernels.jobs.inputs import InputSource
from astra_kernels.jobs.oracle import AS_IT_IS, FP64, ON_FLOAT64, Oracle
from astra_kernels.jobs.reference import Reference
from astra_kernels.jobs.spec import TensorSpec

from .staging import REFERENCE, silu_spec, workload

PLAIN = "import numpy as np\ndef run(input):\n    x, g = np.split(input, 2, axis=1)\n"
WITH_TORCH = importlib.util.find_spec("torch") is not None


class Asked:
    """A reference that is asked once; `inputs` are as before unless the oracle let them be changed."""

    def __init__(self, tmp_path, source, dtype="float16", **changes):
        path = tmp_path / "reference.py"
        path.write_text(source)
        reference = Reference(path)
        tensor = TensorSpec(name="input", dtype=dtype, shape=("tokens", "two_hidden"))
        spec = silu_spec(**{"inputs": (tensor,), **changes})
        self.oracle = Oracle(spec, reference, path)
        self.workload = workload("w", 3, 8)
        self.inputs = InputSource(spec, tmp_path, reference).make(self.workload)
        self.before = self.inputs["input"].copy()
        self.expected = self.oracle.expected(self.workload, self.inputs)
        self.out = self.expected.outputs["out"]


def halves(values):
    return np.split(values.astype(np.float64), 2, axis=1)


def test_reference_fp64_comes_first(tmp_path):
    asked = Asked(tmp_path, REFERENCE)
    x, gate = halves(asked.before)
    assert asked.expected.oracle == FP64
    assert asked.expected.precise
    assert np.array_equal(asked.out, x / (1 + np.exp(-x)) * gate)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float8_e4m3fn"])
def test_then_run_on_float64_inputs(tmp_path, dtype):
    asked = Asked(tmp_path, PLAIN + "    return x * g\n", dtype)
    x, gate = halves(asked.before)
    assert asked.expected.oracle == ON_FLOAT64
    assert np.array_equal(asked.out, x * gate)


@pytest.mark.parametrize(
    "body",
    [
        "    return (x * g).astype(np.float16)\n",
        "    assert input.dtype == np.float16\n    return x * g\n",
    ],
)
def test_else_run_as_it_is(tmp_path, body):
    asked = Asked(tmp_path, PLAIN + body)
    x, gate = np.split(asked.before, 2, axis=1)
    assert asked.expected.oracle == AS_IT_IS
    assert not asked.expected.precise
    assert np.array_equal(asked.out, (x * gate).astype(np.float64))


def test_inputs_survive_a_reference_that_mutates(tmp_path):
    asked = Asked(tmp_path, PLAIN + "    out = x * g\n    input[:] = 0\n    return out\n")
    assert np.array_equal(asked.inputs["input"], asked.before)
    assert asked.out.any()


def test_an_answer_is_remembered(tmp_path):
    source = (
        "calls = []\n"
        + PLAIN
        + "    calls.append(1)\n    assert len(calls) < 2\n    return x * g\n"
    )
    asked = Asked(tmp_path, source)
    assert asked.oracle.expected(asked.workload, asked.inputs) is asked.expected


@pytest.mark.parametrize(
    "result",
    ["x * g", "(x * g,)", "[x * g]", "{'out': x * g}"],
    ids=["array", "tuple", "list", "dict"],
)
def test_forms_of_a_result(tmp_path, result):
    assert Asked(tmp_path, PLAIN + f"    return {result}\n").out.shape == (3, 8)


def test_exact_outputs_keep_their_type(tmp_path):
    index = TensorSpec(name="out", dtype="int32", shape=("tokens",), compare="exact")
    asked = Asked(tmp_path, PLAIN + "    return input.argmax(axis=1)\n", outputs=(index,))
    assert asked.out.dtype == np.int32
    assert np.array_equal(asked.out, asked.before.argmax(axis=1))


class TestFailures:
    def test_an_exception_has_file_and_line(self, tmp_path):
        with pytest.raises(UserError, match=r"reference\.py:4: .*in run: ValueError: no good"):
            Asked(tmp_path, PLAIN + "    raise ValueError('no good')\n")

    def test_a_module_that_raises(self, tmp_path):
        with pytest.raises(UserError, match=r"reference\.py:1: .*when loaded: ZeroDivisionError"):
            Asked(tmp_path, "1 / 0\n")

    def test_a_module_that_does_not_parse(self, tmp_path):
        with pytest.raises(UserError, match="cannot be read"):
            Asked(tmp_path, "def run(:\n")

    def test_no_run(self, tmp_path):
        with pytest.raises(UserError, match="no function 'run'"):
            Asked(tmp_path, "x = 1\n")

    @pytest.mark.parametrize(
        ("result", "message"),
        [
            ("(x, g)", "returned 2 outputs"),
            ("{'y': x}", "outputs are"),
            ("x[:, :3]", r"shape \(3, 3\)"),
        ],
    )
    def test_a_result_that_does_not_fit(self, tmp_path, result, message):
        with pytest.raises(UserError, match=message):
            Asked(tmp_path, PLAIN + f"    return {result}\n")

    @pytest.mark.skipif(WITH_TORCH, reason="torch is installed")
    def test_a_missing_torch_is_named(self, tmp_path):
        with pytest.raises(SetupError, match="needs the package torch"):
            Asked(tmp_path, "import torch\ndef run(input):\n    return input\n")


@pytest.mark.skipif(not WITH_TORCH, reason="torch is not installed")
@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_torch_references(tmp_path, dtype):
    source = "import torch\ndef run(input):\n    x, g = input.chunk(2, dim=1)\n    return x * g\n"
    asked = Asked(tmp_path, source, dtype)
    x, gate = halves(asked.before)
    assert asked.expected.oracle == ON_FLOAT64
    assert np.array_equal(asked.out, x * gate)
