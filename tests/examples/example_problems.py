"""What the tests of the examples share: which problems there are, their references, their inputs."""

import importlib.util
import json
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

from astra_kernels.jobs.inputs import draw
from astra_kernels.records.definition import Definition
from astra_kernels.records.workload import CustomInput, ScalarInput, Workload

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
NAMES = sorted(p.parent.name for p in EXAMPLES.glob("*/definition.json"))
OPERATORS = {name: next(o for o in ("silu", "rmsnorm", "merge") if o in name) for name in NAMES}
ELEMENT = {"float16": np.dtype(np.float16), "bfloat16": np.dtype(ml_dtypes.bfloat16)}


def each_problem(compiled=False):
    """A parametrisation over problems; FlashInfer's carry its marker, and take long where they are compiled."""
    flashinfer = (pytest.mark.flashinfer, pytest.mark.full) if compiled else pytest.mark.flashinfer
    return pytest.mark.parametrize(
        "name",
        [pytest.param(n, marks=flashinfer if n.startswith("flashinfer") else ()) for n in NAMES],
    )


def definition_of(name):
    return Definition.model_validate_json((EXAMPLES / name / "definition.json").read_text())


def workloads_of(name):
    lines = (EXAMPLES / name / "workload.jsonl").read_text().splitlines()
    return [Workload.model_validate(json.loads(line)) for line in lines]


def reference_of(name):
    """A fresh copy of the problem's reference module."""
    spec = importlib.util.spec_from_file_location(
        f"reference_{name}", EXAMPLES / name / "reference.py"
    )
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def inputs_of(name, workload, seed=0):
    """The workload's inputs by name, in the order of the definition."""
    definition = definition_of(name)
    axes = definition.resolve_axes(workload.axes)
    if any(isinstance(s, CustomInput) for s in workload.inputs.values()):
        np.random.seed(seed)
        made = reference_of(name).make_inputs(axes, "cpu")
        return {n: made[n] for n in definition.inputs}
    random = np.random.default_rng(seed)
    inputs = {}
    for input_name, spec in definition.inputs.items():
        source = workload.inputs[input_name]
        if isinstance(source, ScalarInput):
            inputs[input_name] = float(np.float32(source.value))
        else:
            shape = tuple(axes[a] for a in spec.shape)
            inputs[input_name] = draw(random, spec.dtype, shape, source.distribution)
    return inputs


def small_workload(name, **axes):
    """The first workload of the problem at another size."""
    return workloads_of(name)[0].model_copy(update={"axes": axes})


def as_tuple(returned):
    return returned if isinstance(returned, tuple) else (returned,)
