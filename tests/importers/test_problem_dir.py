import json
import shutil

import pytest

from astra_kernels.errors import ProblemError, RunError, SetupError
from astra_kernels.exporters.files import diff_text, write_candidate, write_problem
from astra_kernels.importers.problem_dir import load_candidate, load_problem
from astra_kernels.records.candidate import Candidate

from .conftest import DEFINITION, KERNEL, REFERENCE, SOLUTION, WORKLOAD


def test_a_problem_loads_and_writes_back_equal(files, write, tmp_path):
    root = write(files)
    problem = load_problem(root)
    assert problem.baseline.sources == {"scale.cu": KERNEL}
    write_problem(problem, tmp_path / "copy", data_root=root)
    again = load_problem(tmp_path / "copy")
    assert again == problem
    assert again.digest == problem.digest


def edited(record, **changes):
    return json.dumps({**record, **changes})


BAD = {
    "missing definition": ("definition.json", None, "definition.json: No such file"),
    "malformed definition": ("definition.json", "{", "definition.json: not valid JSON"),
    "a list": ("definition.json", "[]", "JSON object is expected"),
    "deep nesting": ("definition.json", "[" * 200_000, "not valid JSON"),
    "binary": ("definition.json", b"\xff\xfe", "not UTF-8"),
    "unknown axis": (
        "definition.json",
        edited(DEFINITION, inputs={"x": {"shape": ["m"], "dtype": "float32"}}),
        "unknown axis 'm'",
    ),
    "unknown field": ("definition.json", edited(DEFINITION, refrence="x"), "refrence"),
    "no workload": ("workload.jsonl", "\n", "no workload"),
    "malformed workload": ("workload.jsonl", "{}\n", "workload.jsonl:1: uuid"),
    "size outside the domain": (
        "workload.jsonl",
        json.dumps(WORKLOAD) + "\n" + edited(WORKLOAD, axes={"n": 1001}),
        r"workload.jsonl:2: axes.n: 1001 is above the maximum 1000",
    ),
    "same uuid": (
        "workload.jsonl",
        f"{json.dumps(WORKLOAD)}\n{json.dumps(WORKLOAD)}\n",
        "appears twice",
    ),
    "no reference": ("reference.py", None, "no reference"),
    "reference without run": ("reference.py", "x = 1\n", "no function `run`"),
    "reference that is no Python": (
        "reference.py",
        "def run(:\n",
        "reference.py: line 1: not valid Python",
    ),
    "no baseline": ("baseline/solution.json", None, "solution.json"),
    "baseline file missing": ("baseline/scale.cu", None, "scale.cu"),
    "other definition": (
        "baseline/solution.json",
        edited(SOLUTION, definition="other"),
        "expected 'scale'",
    ),
    "entry point without function": (
        "baseline/solution.json",
        edited(SOLUTION, spec={"entry_point": "scale.cu"}),
        "file::function",
    ),
    "entry point in another file": (
        "baseline/solution.json",
        edited(SOLUTION, spec={"entry_point": "other.cu::scale"}),
        "not among the sources",
    ),
    "path outside": (
        "baseline/solution.json",
        edited(SOLUTION, sources=[{"path": "../scale.cu"}]),
        "stay inside",
    ),
    "operator that returns new tensors": (
        "baseline/solution.json",
        edited(
            SOLUTION,
            spec={**SOLUTION["spec"], "binding": "torch", "destination_passing_style": False},
        ),
        "write into tensors that it is given",
    ),
    "python solution": (
        "baseline/solution.json",
        edited(SOLUTION, spec={"language": "triton", "entry_point": "scale.cu::scale"}),
        "CUDA C\\+\\+ baseline is needed",
    ),
    "unknown argument": (
        "baseline/solution.json",
        edited(SOLUTION, spec={**SOLUTION["spec"], "arguments": ["x", "z"]}),
        "'z' is no input",
    ),
    "data file missing": (
        "workload.jsonl",
        edited(
            WORKLOAD,
            inputs={
                **WORKLOAD["inputs"],
                "x": {"type": "safetensors", "path": "x.st", "tensor_key": "x"},
            },
        ),
        "x.st: no such file",
    ),
    "bytes that cannot be evaluated": (
        "definition.json",
        edited(DEFINITION, bytes="n // 0"),
        "definition.json: bytes: cannot evaluate 'n // 0'",
    ),
    "negative bytes": ("definition.json", edited(DEFINITION, bytes="-n"), "bytes: '-n' gives -5"),
    "workspace beyond any device": (
        "baseline/solution.json",
        edited(SOLUTION, spec={**SOLUTION["spec"], "workspace": {"bytes": "10 ** 15"}}),
        "spec.workspace.bytes",
    ),
    "a size that is no number": ("workload.jsonl", edited(WORKLOAD, axes={"n": "5"}), "axes.n"),
    "a size that is a truth value": (
        "workload.jsonl",
        edited(WORKLOAD, axes={"n": True}),
        "axes.n",
    ),
    "control characters in a name": ("workload.jsonl", edited(WORKLOAD, uuid="\u001b[31m"), "uuid"),
    "header package missing": (
        "baseline/solution.json",
        edited(
            SOLUTION,
            spec={
                **SOLUTION["spec"],
                "headers": [{"distribution": "no-such-package", "version": "1", "root": "include"}],
            },
        ),
        "pip install 'no-such-package==1'",
    ),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_input_gives_one_message_with_file_and_field(case, files, write):
    name, content, message = BAD[case]
    if content is None:
        del files[name]
    else:
        files[name] = content
    with pytest.raises((ProblemError, SetupError), match=message) as caught:
        load_problem(write(files))
    assert "\n" not in str(caught.value)


def test_a_source_that_links_out_of_the_problem(files, write, tmp_path):
    root = write(files)
    secret = tmp_path / "secret"
    secret.write_text("secret")
    (root / "baseline/scale.cu").unlink()
    (root / "baseline/scale.cu").symlink_to(secret)
    with pytest.raises(ProblemError, match="link out of"):
        load_problem(root)


def test_a_missing_directory(tmp_path):
    with pytest.raises(ProblemError, match="not a problem directory"):
        load_problem(tmp_path / "none")


def test_of_two_references_the_embedded_one_counts(files, write):
    """SOL-ExecBench's folders have both, and theirs differ in more than comments."""
    same = "# a comment\ndef run(x, factor):\n    return (x * factor)\n"
    files["definition.json"] = edited(DEFINITION, reference=same)
    problem = load_problem(write(files))
    assert (problem.reference, problem.notes) == (same, ())
    other = same.replace("*", "+")
    files["definition.json"] = edited(DEFINITION, reference=other)
    problem = load_problem(write(files))
    assert problem.reference == other
    assert "reference.py differs" in problem.notes[0]


def test_flashinfer_bench_layout(files, write):
    """Traces that hold a workload, an embedded reference, null fields, embedded sources."""
    trace = {"definition": "scale", "workload": WORKLOAD, "solution": None, "evaluation": None}
    files["workload.jsonl"] = json.dumps(trace) + "\n"
    files["definition.json"] = edited(
        DEFINITION,
        reference=REFERENCE,
        description=None,
        tags=[],
        constraints=None,
        op_type="scale",
    )
    del files["reference.py"], files["baseline/scale.cu"]
    spec = {
        **SOLUTION["spec"],
        "target_hardware": ["cuda"],
        "dependencies": [],
        "destination_passing_style": True,
    }
    files["baseline/solution.json"] = edited(
        SOLUTION, spec=spec, sources=[{"path": "scale.cu", "content": KERNEL}]
    )
    problem = load_problem(write(files))
    assert problem.workloads[0].uuid == "one"
    assert problem.baseline.sources == {"scale.cu": KERNEL}


def test_sol_execbench_layout_with_a_named_baseline(files, write, tmp_path):
    """No baseline of its own, expr axes, custom inputs, a tolerance block; the kernel is named on the command line."""
    files["definition.json"] = edited(
        DEFINITION,
        axes={
            "m": {"type": "var", "description": None},
            "n": {"type": "expr", "expression": "2 * m", "description": None},
        },
        custom_inputs_entrypoint="get_inputs",
        reference=REFERENCE,
    )
    files["workload.jsonl"] = json.dumps(
        {
            "uuid": "w",
            "axes": {"m": 3},
            "inputs": {"x": {"type": "custom"}, "factor": {"type": "custom"}},
            "tolerance": {"max_atol": 0.01, "max_rtol": 0.01, "required_matched_ratio": 0.99},
        }
    )
    for name in ("baseline/solution.json", "baseline/scale.cu", "reference.py"):
        del files[name]
    root = write(files)
    with pytest.raises(ProblemError, match="--baseline"):
        load_problem(root)
    kernel = tmp_path / "mine.cu"
    kernel.write_text(KERNEL)
    problem = load_problem(root, f"{kernel}::scale")
    assert problem.spec.entry_point == "mine.cu::scale"
    assert problem.workloads[0].tolerance.required_matched_ratio == 0.99


def test_candidates_from_a_file_a_directory_or_a_solution(files, write, tmp_path):
    problem = load_problem(write(files))
    single = tmp_path / "faster.cu"
    single.write_text("// faster\n" + KERNEL)
    assert load_candidate(problem, single).sources["scale.cu"].startswith("// faster")
    folder = tmp_path / "folder"
    folder.mkdir()
    (folder / "scale.cu").write_text("// folder\n")
    (folder / "more.cuh").write_text("// more\n")
    (folder / "notes.txt").write_text("not a source")
    assert set(load_candidate(problem, folder).sources) == {"scale.cu", "more.cuh"}
    shutil.copy(tmp_path / "scale/baseline/solution.json", folder)
    assert load_candidate(problem, folder / "solution.json").sources == {"scale.cu": "// folder\n"}
    (folder / "solution.json").write_text(edited(SOLUTION, spec={"entry_point": "scale.cu::other"}))
    with pytest.raises(ProblemError, match="must keep 'scale'"):
        load_candidate(problem, folder)


def test_the_diff_applies(files, write, tmp_path):
    problem = load_problem(write(files))
    changed = Candidate(
        sources={"scale.cu": KERNEL.replace("return 0;", "return 1;"), "new.cuh": "// no newline"}
    )
    diff = write_candidate(changed, problem.baseline, tmp_path / "best")
    assert (tmp_path / "best" / "scale.cu").read_text() == changed.sources["scale.cu"]
    assert diff.read_text() == diff_text(problem.baseline, changed)
    target = tmp_path / "applied"
    target.mkdir()
    (target / "scale.cu").write_text(KERNEL)
    import subprocess

    subprocess.run(["git", "apply", str(diff)], cwd=target, check=True)
    assert {p.name: p.read_text() for p in target.iterdir()} == changed.sources


def test_an_existing_target_is_left_alone(files, write, tmp_path):
    root = write(files)
    (tmp_path / "there").mkdir()
    with pytest.raises(RunError, match="exists already"):
        write_problem(load_problem(root), tmp_path / "there")
    assert list((tmp_path / "there").iterdir()) == []
