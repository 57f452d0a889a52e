"""Python files that come with a patch: a test, a benchmark, and a check of which kernels run."""

from __future__ import annotations

import ast
import posixpath
import pprint
from collections.abc import Mapping

from astra_kernels.exporters.borders import border_sizes
from astra_kernels.exporters.change import Change
from astra_kernels.exporters.python_call import PythonCall
from astra_kernels.exporters.templating import render
from astra_kernels.records.definition import Tolerance
from astra_kernels.records.problem import Problem
from astra_kernels.records.workload import CustomInput, SafetensorsInput, ScalarInput

ENGAGEMENT = "check_engagement.py"
_TYPES = {
    "float16": "torch.float16",
    "bfloat16": "torch.bfloat16",
    "float32": "torch.float32",
    "float64": "torch.float64",
}


def unable(problem: Problem, call: PythonCall | None) -> str:
    """Why no Python files can be made; "" where they can."""
    if (problem.spec.binding or "c") == "c":
        return "the operator is a C function, which Python does not call"
    if call is None:
        return f"the tree's Python sources do not show how {problem.name} is called"
    for workload in problem.workloads:
        if any(isinstance(s, CustomInput | SafetensorsInput) for s in workload.inputs.values()):
            return "its inputs are not random values of a shape"
    tensors = (*problem.definition.inputs.values(), *problem.definition.outputs.values())
    if any(t.shape is not None and t.dtype not in _TYPES for t in tensors):
        return "it has tensors of other types than float16, bfloat16, float32 and float64"
    if problem.spec.workspace is not None:
        return "it takes a workspace"
    return ""


def tree_files(problem: Problem, change: Change, call: PythonCall) -> Mapping[str, str]:
    """The test and the benchmark by their path in the tree."""
    symbol = problem.name
    facts = _facts(problem, change, call)
    made = {
        posixpath.join(call.benchmarks, f"bench_{symbol}_astra.py"): render(
            "benchmark.py.jinja", facts
        )
    }
    if facts["reference"]:
        made[posixpath.join(call.tests, f"test_{symbol}_astra.py")] = render("test.py.jinja", facts)
    return made


def engagement_script(problem: Problem, change: Change, call: PythonCall) -> str:
    """The check of which kernels run on a GPU."""
    return render("check_engagement.py.jinja", _facts(problem, change, call))


def _facts(problem: Problem, change: Change, call: PythonCall) -> dict[str, object]:
    definition = problem.definition
    tolerance = definition.tolerance or Tolerance(max_atol=1e-2, max_rtol=1e-2)
    rows: dict[tuple[tuple[str, int], ...], bool] = {}
    sizes = (*border_sizes(problem, change.regions), *(w.axes for w in problem.workloads))
    for axes in sizes:
        resolved = definition.resolve_axes(axes)
        key = tuple(sorted(resolved.items()))
        rows.setdefault(key, any(r.holds(resolved) for r in change.regions))
    listed = [(dict(key), inside) for key, inside in rows.items()]
    scalars = {
        n: s.value for n, s in problem.workloads[0].inputs.items() if isinstance(s, ScalarInput)
    }
    specs = {**definition.inputs, **definition.outputs}
    return {
        "symbol": problem.name,
        "imports": call.imports,
        "callable": call.callable,
        "namespace": change.namespace,
        "new_path": change.new_path,
        "sizes": pprint.pformat(listed, width=96, sort_dicts=True),
        "arguments": _arguments(problem, scalars),
        "tensors": [
            (name, list(spec.shape or ()), _TYPES[spec.dtype])
            for name, spec in specs.items()
            if spec.shape is not None and getattr(spec, "in_place_of", None) is None
        ],
        "tensor_names": [n for n, s in definition.inputs.items() if s.shape is not None],
        "inputs": [
            repr(scalars[name]) if spec.shape is None else name
            for name, spec in definition.inputs.items()
        ],
        "outputs": [
            (getattr(spec, "in_place_of", None) or name)
            for name, spec in definition.outputs.items()
        ],
        "scalars": scalars,
        "tolerance": (tolerance.max_atol, tolerance.max_rtol),
        **_reference(problem),
        "capability": divmod(change.guard.capability, 10),
    }


def _arguments(problem: Problem, scalars: Mapping[str, object]) -> list[str]:
    """Of a call, in Python."""
    made: list[str] = []
    for argument in problem.spec.resolved_arguments(problem.definition):
        if argument.constant:
            made.append(repr(argument.value))
        elif argument.name in scalars:
            made.append(repr(scalars[argument.name]))
        elif argument.name in problem.definition.axes:
            made.append(f'axes["{argument.name}"]')
        else:
            made.append(f'tensors["{argument.name}"]')
    return made


def _reference(problem: Problem) -> dict[str, object]:
    """The problem's reference, if it has one: the function that is called with float64, and what it takes."""
    if problem.definition.oracle == "baseline":
        return {"reference": ""}
    tree = ast.parse(problem.reference)
    names = {n.name for n in tree.body if isinstance(n, ast.FunctionDef)}
    imported = {a.name for n in ast.walk(tree) if isinstance(n, ast.Import) for a in n.names}
    imported |= {n.module or "" for n in ast.walk(tree) if isinstance(n, ast.ImportFrom)}
    lines = problem.reference.strip().splitlines()
    return {
        # such an import has to be a file's first
        "reference": "\n".join(x for x in lines if not x.startswith("from __future__")),
        "function": "reference_fp64" if "reference_fp64" in names else "run",
        "as_array": "" if "torch" in {name.partition(".")[0] for name in imported} else ".numpy()",
    }
