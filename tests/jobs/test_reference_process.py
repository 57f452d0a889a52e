"""A reference that hangs, leaves or crashes costs its job a message, not the worker."""

import os
import time

import numpy as np
import pytest

from astra_kernels.errors import UserError
from astra_kernels.jobs.inputs import InputSource
from astra_kernels.jobs.reference_process import ReferenceProcess
from astra_kernels.jobs.spec import InputSpec, Limits

from .staging import REFERENCE, silu_spec, stage, workload

WORKLOAD = workload("w", 3, 8)
LIMITS = Limits(oracle_s=2)


@pytest.fixture
def started(tmp_path):
    processes = []

    def start(reference, **changes):
        (tmp_path / "reference.py").write_text(reference)
        spec = silu_spec(alone=True, limits=LIMITS, **changes)
        processes.append(ReferenceProcess(spec, tmp_path))
        return processes[-1], InputSource(spec, tmp_path)

    yield start
    for process in processes:
        process.close()


def test_answers_come_back_whole(started):
    process, source = started(REFERENCE)
    inputs = source.make(WORKLOAD)
    for _ in range(2):
        answer = process.expected(WORKLOAD, inputs)
        x, gate = np.split(inputs["input"].astype(np.float64), 2, axis=1)
        np.testing.assert_allclose(answer.outputs["out"], x / (1 + np.exp(-x)) * gate)
        assert answer.oracle == "reference_fp64"


def test_custom_inputs_come_back(started):
    custom = (
        "def made(axes, device):\n"
        "    shape = (axes['tokens'], axes['two_hidden'])\n"
        "    return {'input': np.ones(shape, np.float16)}\n"
    )
    process, _ = started(REFERENCE + custom, custom_inputs_entrypoint="made")
    chosen = workload("w", 3, 8, inputs={"input": InputSpec(type="custom")})
    assert (process.inputs(chosen, repeating=False)["input"] == 1).all()


@pytest.mark.parametrize(
    ("statement", "said"),
    [
        ("while True: pass", r"took more than 2 s on workload w"),
        ("import sys; sys.exit(0)", r"reference\.py:\d+: .*SystemExit: 0"),
        ("raise KeyboardInterrupt", r"reference\.py:\d+: .*KeyboardInterrupt"),
        ("raise ValueError('one\\ntwo')", r"reference\.py:\d+: .*ValueError: one two"),
        ("import os; os._exit(0)", r"ended its process on workload w \(exit status 0\)"),
        ("import ctypes; ctypes.string_at(0)", r"ended its process .*SIGSEGV"),
        ("return np.zeros(1 << 60)", "reference"),
    ],
)
def test_a_reference_that_fails(started, statement, said):
    process, source = started(f"import numpy as np\n\n\ndef run(input):\n    {statement}\n")
    with pytest.raises(UserError, match=said) as raised:
        process.expected(WORKLOAD, source.make(WORKLOAD))
    assert str(raised.value).startswith("reference.py")
    assert str(raised.value).count("reference.py") == 1
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize(
    ("module", "said"),
    [
        ("import sys; sys.exit(3)", "SystemExit"),
        ("import os; os._exit(3)", "ended its process when loaded .exit status 3"),
        ("while True: pass", "took more than 2 s when loaded"),
        ("def run(x:", "cannot be read"),
    ],
)
def test_a_reference_that_cannot_be_loaded(started, module, said):
    with pytest.raises(UserError, match=said) as raised:
        started(module + "\n")
    assert str(raised.value).startswith("reference.py")


def test_a_reference_that_forks_answers_once(started):
    process, source = started(
        REFERENCE.replace("import numpy", "import os\nimport numpy").replace(
            "    return x / (1", "    os.fork()\n    return x / (1"
        )
    )
    inputs = source.make(WORKLOAD)
    first = process.expected(WORKLOAD, inputs).outputs["out"]
    other = process.expected(workload("v", 2, 8), {"input": inputs["input"][:2]}).outputs["out"]
    np.testing.assert_array_equal(first[:2], other)


def test_closing_ends_the_process(started):
    process, _ = started(REFERENCE)
    number = process._process
    process.close()
    time.sleep(0.01)
    with pytest.raises(ProcessLookupError):
        os.kill(number, 0)


def test_a_workspace_that_no_machine_has_is_the_users_fault(judge_job):
    with pytest.raises(UserError, match="workspace take"):
        judge_job(None, workloads=(workload("w", 3, 8, workspace_bytes=10**15),))


def test_a_job_names_the_file_once(tmp_path, toolchain, build_cache, capsys):
    from astra_kernels.jobs.__main__ import main

    job = stage(tmp_path / "job", None, reference="def run(input):\n    raise ValueError('no')\n")
    assert main([str(job), "--cache", str(build_cache)]) == 2
    assert capsys.readouterr().err.startswith("reference.py:2: the reference raised in run:")
