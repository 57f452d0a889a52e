"""Operators out of trees that are laid out as frameworks are, and out of FlashInfer's package."""

import hashlib
import json
import shutil
import subprocess
from importlib.util import find_spec
from pathlib import Path

import pytest

from astra_kernels.errors import ProblemError, UserError
from astra_kernels.exporters.files import write_problem
from astra_kernels.extraction.extract import Wanted, extract
from astra_kernels.importers.problem_dir import load_problem

TREES = Path(__file__).parent / "trees"


@pytest.fixture
def taken(tmp_path, tmp_path_factory, build_cache):
    """What becomes of a symbol of a tree, which is in no repository."""

    def take(symbol, tree, *, check=True, more=None, **changes):
        where = shutil.copytree(TREES / tree, tmp_path_factory.mktemp("trees") / tree)
        for path, text in (more or {}).items():
            (where / path).write_text(text)
        return extract(
            Wanted(
                symbol,
                str(where),
                tmp_path / "made",
                cache=build_cache if check else None,
                **changes,
            )
        )

    return take


def place_of(tree, path, text):
    """`file:line` of a text."""
    lines = (TREES / tree / path).read_text().splitlines()
    return f"{path}:{next(i for i, line in enumerate(lines, start=1) if text in line)}"


def refused(taken, tmp_path, symbol, tree, **changes):
    """The message of a refusal, which leaves nothing behind."""
    with pytest.raises(UserError) as caught:
        taken(symbol, tree, check=False, **changes)
    assert list(tmp_path.iterdir()) == []
    return str(caught.value)


def test_a_known_kind_gets_a_reference_that_agrees_with_the_kernel(taken):
    made = taken("silu_and_mul", "serving_kernel")
    assert made.trial.passed and not made.own_oracle
    assert any("checked against the kernel" in note for note in made.notes)
    assert set(made.files) == {"activation.cu", "launch_macros.h", "serving_ops.h"}
    source = (made.directory / "baseline" / "activation.cu").read_text()
    assert "scale_rows" not in source and "unrelated.h" not in source
    assert source.startswith("// SPDX-License-Identifier")
    place = place_of("serving_kernel", "csrc/elementwise/activation.cu", "void silu_and_mul(")
    assert place in (made.directory / "PROVENANCE.md").read_text()
    assert (made.directory / "LICENSE").is_file()


@pytest.mark.full
def test_an_unknown_operator_is_its_own_oracle_on_the_sizes_of_its_tests(taken):
    made = taken("scale_rows", "serving_kernel")
    assert made.trial.passed, made.trial.said
    assert made.own_oracle
    problem = load_problem(made.directory)
    assert "its own oracle" in problem.definition.description
    assert list(problem.definition.outputs) == ["out"]
    assert problem.definition.inputs["scale"].dtype == "float32"
    assert {w.axes["tokens"] for w in problem.workloads} == {1, 5, 61}


def test_the_frameworks_own_reference_counts_if_the_kernel_agrees(taken):
    """The one that is called as the operator is comes first, and is wrong; a test's other one is right."""
    made = taken("scale_rows", "serving_kernel", more={"tests/test_scale.py": OWN_REFERENCES})
    assert made.trial.passed, made.trial.said
    assert not made.own_oracle
    wrong, right = (note for note in made.notes if "tests/test_scale.py" in note)
    assert "scale_rows_ref of tests/test_scale.py:10, disagrees with the kernel" in wrong
    assert right.startswith("reference: each_row_times of tests/test_scale.py:14, checked against")
    problem = load_problem(made.directory)
    assert "its own oracle" not in problem.definition.description
    assert "each_row_times" in problem.definition.description
    reference = (made.directory / "reference.py").read_text()
    assert reference.startswith("# SPDX-License-Identifier: Apache-2.0\n")
    assert "WIDE = np.float64" in reference and "scale_rows_ref" not in reference


def test_a_reference_in_torch(tmp_path, build_cache):
    pytest.importorskip("torch")
    tree = shutil.copytree(TREES.parents[1] / "framework" / "minillm", tmp_path / "minillm")
    wanted = Wanted("per_token_quant_fp8", str(tree), tmp_path / "made", cache=build_cache)
    made = extract(wanted)
    assert made.trial.passed and not made.own_oracle, made.notes
    assert any("torch_per_token_quant_fp8 of tests/test_quant.py" in note for note in made.notes)


def test_a_reference_in_torch_where_there_is_none_is_said(tmp_path, build_cache):
    if find_spec("torch") is not None:
        pytest.skip("torch is installed")
    tree = shutil.copytree(TREES.parents[1] / "framework" / "minillm", tmp_path / "minillm")
    wanted = Wanted("per_token_quant_fp8", str(tree), tmp_path / "made", cache=build_cache)
    made = extract(wanted)
    assert made.trial.passed and made.own_oracle
    assert any("cannot be used" in note and "pip install torch" in note for note in made.notes)


OWN_REFERENCES = """\
# SPDX-License-Identifier: Apache-2.0

import numpy as np
import pytest
import serving_kernel

WIDE = np.float64


def scale_rows_ref(input, scale):
    return input + scale[:, None].astype(input.dtype)


def each_row_times(x, factor):
    return (x.astype(WIDE) * factor[:, None].astype(WIDE),)


@pytest.mark.parametrize("num_tokens", [1, 5, 61])
@pytest.mark.parametrize("hidden_size", [48, 520])
def test_scale_rows(num_tokens, hidden_size):
    x, scale = np.ones((num_tokens, hidden_size)), np.ones(num_tokens)
    assert (serving_kernel.scale_rows(x, scale) == each_row_times(x, scale)[0]).all()
"""


def test_a_link_to_a_source_is_not_a_second_definition(tmp_path, build_cache):
    tree = shutil.copytree(TREES / "engine", tmp_path / "engine")
    source = tree / "csrc" / "layernorm_kernels.cu"
    moved = source.rename(tree / "kernels.cu")
    source.symlink_to(moved)
    made = extract(Wanted("rms_norm", str(tree), tmp_path / "made", cache=None))
    assert made.operator.function.path == "kernels.cu"


def test_names_registered_elsewhere_and_headers_beside(taken):
    made = taken("rms_norm", "engine")
    assert made.trial.passed, made.trial.said
    assert not made.own_oracle
    assert set(made.files) == {"layernorm_kernels.cu", "core/block_sum.cuh", "core/dispatch.h"}
    solution = json.loads((made.directory / "baseline" / "solution.json").read_text())
    assert solution["spec"]["binding"] == "torch"


def test_a_kernel_that_is_wrong_does_not_get_the_reference(taken, tmp_path, build_cache):
    tree = tmp_path / "tree"
    tree.mkdir()
    text = (TREES / "engine/csrc/layernorm_kernels.cu").read_text()
    wrong = text.replace("x * scale *", "x * scale * 1.25f *")
    assert wrong != text
    (tree / "core").mkdir()
    for name in ("block_sum.cuh", "dispatch.h"):
        (tree / "core" / name).write_text((TREES / "engine/csrc/core" / name).read_text())
    (tree / "norm.cu").write_text(wrong)
    made = extract(Wanted("rms_norm", str(tree), tmp_path / "made", cache=build_cache))
    assert made.own_oracle and made.trial.passed
    assert any("disagrees with the kernel" in note for note in made.notes)


def test_unknown_symbol_names_near_ones(taken, tmp_path):
    said = refused(taken, tmp_path, "rms_nrom", "engine")
    assert "near names: rms_norm" in said


def test_overloads_are_listed_and_chosen_by_place(taken, tmp_path):
    said = refused(taken, tmp_path, "twice", "engine")
    one, two = (
        place_of("engine", "csrc/layernorm_kernels.cu", f"input{end}")
        for end in (") {}", ", double by)")
    )
    assert one in said and two in said and one != two
    assert "--at" in said
    assert "no definition" in refused(
        taken, tmp_path, "twice", "engine", at="layernorm_kernels.cu:9"
    )
    made = taken("twice", "engine", check=False, at=two)
    assert len(made.operator.function.parameters) == 3


def test_missing_include_is_named_with_who_includes_it(taken, tmp_path):
    said = refused(taken, tmp_path, "broken", "engine")
    assert "core/not_there.h" in said and "csrc/broken.cu includes it" in said


def test_cutlass_is_said_to_be_needed(taken, tmp_path):
    assert "CUTLASS" in refused(taken, tmp_path, "gemm", "engine")


@pytest.mark.parametrize(
    ("header", "call", "library"),
    [
        ("cublas_v2.h", "cublasSgemm(handle)", "cuBLAS"),
        ("cublasLt.h", "cublasLtMatmul(handle)", "cuBLAS"),
        ("cudnn.h", "cudnnCreate(&handle)", "cuDNN"),
        ("nccl.h", "ncclAllReduce(handle)", "NCCL"),
    ],
)
def test_libraries_that_are_used_are_said_to_be_needed(tmp_path, header, call, library):
    tree = tmp_path / "tree"
    tree.mkdir()
    text = f"#include <{header}>\n#include <torch/all.h>\nvoid product(torch::Tensor& out) {{ {call}; }}\n"
    (tree / "product.cu").write_text(text)
    with pytest.raises(UserError, match=rf"product\.cu uses {library}, whose header {header}"):
        extract(Wanted("product", str(tree), tmp_path / "made"))
    assert [p.name for p in tmp_path.iterdir()] == ["tree"]


def test_a_library_that_is_included_but_not_used_is_replaced_by_an_empty_file(tmp_path):
    tree = tmp_path / "tree"
    tree.mkdir()
    (tree / "idle.cu").write_text(
        "#include <cublas_v2.h>\n#include <torch/all.h>\n"
        "void idle(torch::Tensor& out, torch::Tensor const& x) {}  // cublasCreate is not called\n"
    )
    made = extract(Wanted("idle", str(tree), tmp_path / "made"))
    assert any("cuBLAS" in note and "empty" in note for note in made.notes)
    found = load_problem(made.directory).provenance
    assert [f.path_in_problem for f in found.files] == ["idle.cu"]


def test_an_existing_directory_is_left_alone(taken, tmp_path):
    (tmp_path / "made").mkdir()
    (tmp_path / "made" / "mine").write_text("mine")
    with pytest.raises(UserError, match="exists"):
        taken("rms_norm", "engine", check=False)
    assert [p.name for p in (tmp_path / "made").iterdir()] == ["mine"]


def test_neither_directory_nor_package(taken, tmp_path):
    with pytest.raises(UserError, match="no such directory"):
        extract(Wanted("x", "no_such_package_here", tmp_path / "made"))


def git(root, *words):
    """Runs Git with an author of its own."""
    identity = ("-c", "user.name=tests", "-c", "user.email=tests@example.com")
    done = subprocess.run(
        ["git", *identity, "-C", str(root), *words], check=True, capture_output=True, text=True
    )
    return done.stdout.strip()


@pytest.fixture
def repository(tmp_path_factory):
    """A repository with a tree in a subdirectory."""
    top = tmp_path_factory.mktemp("repository")
    shutil.copytree(TREES / "engine", top / "engine")
    git(top, "init", "-q")
    git(top, "add", ".")
    git(top, "commit", "-q", "-m", "everything")
    return top


def test_every_copied_file_is_recorded_and_a_run_keeps_it(repository, tmp_path):
    made = extract(Wanted("rms_norm", str(repository / "engine"), tmp_path / "made"))
    problem = load_problem(made.directory)
    found = problem.provenance
    assert found.commit == git(repository, "rev-parse", "HEAD")
    assert found.framework == repository.name and found.symbol == "rms_norm"
    assert {f.path_in_problem for f in found.files} == set(made.files)
    for file in found.files:
        original = (repository / file.path_in_tree).read_bytes()
        assert hashlib.sha256(original).hexdigest() == file.sha256
        copied = (made.directory / "baseline" / file.path_in_problem).read_bytes()
        assert file.whole == (copied == original)
    assert {f.path_in_problem for f in found.files if not f.whole} == {"layernorm_kernels.cu"}
    line = (repository / found.entry.file).read_text().splitlines()[found.entry.line - 1]
    assert "void rms_norm(" in line
    write_problem(problem, tmp_path / "kept")
    assert load_problem(tmp_path / "kept") == problem


def test_changes_that_are_not_committed_are_refused_or_no_commit_is_named(repository, tmp_path):
    header = repository / "engine/csrc/core/dispatch.h"
    header.write_text(header.read_text() + "// mine\n")
    tree = str(repository / "engine")
    with pytest.raises(UserError, match=r"csrc/core/dispatch\.h; commit them, or .* --dirty"):
        extract(Wanted("rms_norm", tree, tmp_path / "made"))
    assert list(tmp_path.iterdir()) == []
    made = extract(Wanted("rms_norm", tree, tmp_path / "made", dirty=True))
    assert load_problem(made.directory).provenance.commit is None
    git(repository, "checkout", "-q", ".")
    (repository / "engine/csrc/mine.h").write_text("")  # concerns nobody
    extract(Wanted("rms_norm", tree, tmp_path / "again"))


def test_a_tree_that_a_repository_does_not_have_gets_no_commit(repository, tmp_path):
    (repository / ".gitignore").write_text("vendored/\n")
    tree = shutil.copytree(repository / "engine", repository / "vendored")
    made = extract(Wanted("rms_norm", str(tree), tmp_path / "made"))
    found = load_problem(made.directory).provenance
    assert found.commit is None and found.framework == "vendored"
    assert found.entry.file == "csrc/layernorm_kernels.cu"


def test_a_damaged_provenance_names_the_file_and_the_field(taken):
    directory = taken("rms_norm", "engine", check=False).directory
    path = directory / "provenance.json"
    found = json.loads(path.read_text())
    for change, said in (
        ({"files": found["files"][1:] + found["files"][1:]}, "appears twice"),
        ({"files": [{**found["files"][0], "sha256": "12"}]}, "sha256"),
        ({"entry": {**found["entry"], "file": "../x.cu"}}, "entry.file"),
        (
            {
                "files": [
                    {**f, "path_in_problem": "x/" + f["path_in_problem"]} for f in found["files"]
                ]
            },
            "is no source of the baseline",
        ),
    ):
        path.write_text(json.dumps({**found, **change}))
        with pytest.raises(ProblemError, match=said) as caught:
            load_problem(directory)
        assert "provenance.json" in str(caught.value)
