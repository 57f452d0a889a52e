"""What cannot be exported is refused with what to do; then nothing is written, and the tree is as it was."""

import json

import pytest

from astra_kernels.app.runs import read_run
from astra_kernels.errors import ExportRefused, NothingToExport
from astra_kernels.exporters.winner import winner_of
from tests.exporting import scale as sources
from tests.exporting.conftest import changed, committed, git, measured, state_of, write_run


@pytest.fixture
def refused(scale, exported):
    """The message of a refusal."""

    def message(error=ExportRefused, tree="engine", **changes):
        before = state_of(scale / tree) if (scale / tree).is_dir() else None
        with pytest.raises(error) as caught:
            exported(scale, tree, **changes)
        assert not (scale / "out").exists()
        assert before is None or state_of(scale / tree) == before
        return str(caught.value)

    return message


def edit(scale, path, old, new):
    file = scale / "engine" / path
    assert old in file.read_text()
    file.write_text(file.read_text().replace(old, new))


def rewritten(scale, edits, change=lambda evaluation: evaluation, **changes):
    """The run with another candidate or another evaluation."""
    run = read_run(scale / "run")
    (look,) = run.history.remeasured
    candidate = changed(run.problem, *edits)
    if extra := changes.pop("extra", None):
        candidate = candidate.model_copy(update={"sources": {**candidate.sources, **extra}})
    (scale / "run").rename(scale / "old-run")
    evaluation = change(look.evaluation)
    write_run(
        scale / "run", run.problem, scale / "old-run/problem", candidate, evaluation, **changes
    )


def test_a_modelled_win_has_to_be_asked_for(refused):
    assert "--modelled" in refused(NothingToExport, modelled=False)


def test_no_win_of_a_single_workload(refused, scale):
    rewritten(scale, sources.EDITS, lambda e: measured(e, dict.fromkeys(["4x8192"], 1.0)))
    assert "not established" in refused(NothingToExport, modelled=False)


def test_a_measured_win_without_a_control_is_not_confirmed(refused, scale):
    rewritten(scale, sources.EDITS, lambda e: measured(e, {"4x8192": 2.0}))
    assert "no control" in refused(NothingToExport, modelled=False)


def test_a_run_that_did_not_finish(scale):
    run = read_run(scale / "run")
    run.history.finished = None
    with pytest.raises(NothingToExport, match="--resume"):
        winner_of(run.history, modelled=True)


def test_no_directory_no_repository_no_commit(refused, scale):
    assert "no such directory" in refused(tree="nowhere")
    (scale / "plain").mkdir()
    assert "not a git repository" in refused(tree="plain")
    git(scale / "plain", "init", "--quiet")
    assert "no commit" in refused(tree="plain")


def test_another_projects_tree(refused, scale):
    (scale / "other").mkdir()
    (scale / "other/attention.cu").write_text("int x;\n")
    committed(scale / "other")
    assert "another project's tree" in refused(tree="other")


def test_uncommitted_changes_of_a_file_concerned_only(refused, scale, exported):
    edit(scale, "README.md", "engine", "engine, changed")
    edit(scale, "csrc/scale.cu", "return 3;", "return 3; ")
    said = refused()
    assert "csrc/scale.cu: was changed since" in said and "+1 -1" in said
    git(scale / "engine", "checkout", "--", "csrc/scale.cu")
    edit(scale, "csrc/common/config.h", "32", "32")
    (scale / "engine/csrc/common/config.h").chmod(0o755)
    assert "csrc/common/config.h: not as committed" in refused()


def test_a_file_that_was_changed_since_is_named_with_how_much(refused, scale):
    edit(scale, "csrc/common/element.cuh", "times(a, x)", "times(a, x) * 1.0f")
    git(scale / "engine", "commit", "--quiet", "--all", "--message", "changed")
    assert (
        "csrc/common/element.cuh: was changed since the operator was taken out (+1 -1 lines)"
        in refused()
    )


def test_a_file_that_moved_is_found(refused, scale, exported):
    git(scale / "engine", "mv", "csrc", "kernels")
    git(scale / "engine", "commit", "--quiet", "--message", "moved")
    said = refused()
    assert "lies at kernels/scale.cu" in said and "--moved" in said
    made = exported(scale, moved=True)
    assert "files/kernels/scale_astra.cuh" in made.files
    assert all(p.established for p in made.proofs[:3]), made.proofs


def test_a_file_that_provenance_does_not_know(refused, scale):
    edits = (
        *sources.EDITS,
        ("scale.cu", '#include "common/config.h"', '#include "new.h"\n#include "common/config.h"'),
    )
    rewritten(scale, edits, extra={"new.h": "#pragma once\n"})
    assert "new.h: changed or added by the candidate" in refused()


def test_a_problem_without_provenance(refused, scale):
    (scale / "run/problem/provenance.json").unlink()
    run = read_run_unchecked(scale)
    assert run.provenance is None
    from astra_kernels.exporters.git import Tree
    from astra_kernels.exporters.originals import find_originals

    with pytest.raises(ExportRefused, match="astra extract"):
        find_originals(Tree.open(scale / "engine"), run, (), moved=False)


def test_an_instance_of_a_template(scale):
    from astra_kernels.exporters.git import Tree
    from astra_kernels.exporters.originals import find_originals

    path = scale / "run/problem/provenance.json"
    record = json.loads(path.read_text())
    record["entry"]["name"] = "ScaleKernel<half>::run"
    path.write_text(json.dumps(record))
    with pytest.raises(ExportRefused, match="an instance of a template"):
        find_originals(Tree.open(scale / "engine"), read_run_unchecked(scale), (), moved=False)


def read_run_unchecked(scale):
    from astra_kernels.importers.problem_dir import load_problem

    return load_problem(scale / "run/problem")


def test_an_out_that_exists_or_lies_in_the_tree(scale, refused, exported):
    assert "which is not changed" in refused(out=scale / "engine/out")
    assert not (scale / "engine/out").exists()
    (scale / "there").mkdir()
    assert "exists" in refused(out=scale / "there")


def test_an_export_that_is_applied_already(scale, refused):
    (scale / "engine/csrc/scale_astra.cuh").write_text("// an earlier one\n")
    git(scale / "engine", "add", "--all")
    git(scale / "engine", "commit", "--quiet", "--message", "applied")
    assert "an earlier export is applied" in refused()


def test_a_winner_that_fails_in_the_patched_tree(scale, refused):
    rewritten(
        scale, (sources.EDITS[0], ("common/element.cuh", "times(a, x)", "times(a, x) * 1.25f"))
    )
    assert "(verified): incorrect" in refused(NothingToExport)


def test_damaged_reports(scale, refused, tmp_path):
    (tmp_path / "trace.json").write_text("{}")
    assert "--trace" in refused(trace=tmp_path / "trace.json")
    (tmp_path / "trace.json").write_text(json.dumps({"traceEvents": []}))
    assert "has no kernels" in refused(trace=tmp_path / "trace.json")
    (tmp_path / "report.json").write_text('{"namespace": "astra_x", "gpu": "g", "rows": []}')
    assert "--engagement" in refused(engagement=tmp_path / "report.json")
    row = {"axes": {}, "inside": True, "kernels": ["k"]}
    (tmp_path / "report.json").write_text(
        json.dumps({"namespace": "astra_x", "gpu": "g", "rows": [row]})
    )
    assert "is about astra_x" in refused(engagement=tmp_path / "report.json")


def test_a_winner_that_is_wrong_at_odd_sizes_of_its_range(scale, refused):
    """Right at every size that was timed: only sizes inside of the range show it."""
    loop = "i < columns; i +="
    wrong = (
        "scale.cu",
        loop,
        loop.replace("columns", "columns - (columns % 2 == 1 && gridDim.x == 64)"),
    )
    rewritten(scale, (*sources.EDITS, wrong))
    assert "(verified): incorrect" in refused(NothingToExport)


@pytest.mark.parametrize(
    "variable",
    ["static int calls = 0;", "__device__ int calls;", "__constant__ float calls[4];", "std::atomic<int> calls{0};"],
)  # fmt: skip
def test_a_variable_that_would_be_there_twice(scale, refused, variable):
    """The rest of the engine reads or writes the one that the new code would no longer touch."""
    header = scale / "engine/csrc/common/element.cuh"
    text = header.read_text().replace(
        "#include <cstdint>", f"#include <atomic>\n#include <cstdint>\n{variable}"
    )
    run = read_run(scale / "run")
    problem = scale / "run/problem"
    assert run.history.finished.best
    header.write_text(text)
    from astra_kernels.exporters.change import _require_no_state
    from astra_kernels.exporters.namespaced import Namespaced
    from astra_kernels.importers.problem_dir import load_problem

    (problem / "baseline/common/element.cuh").write_text(text)
    parts = Namespaced((), (), (), (("common/element.cuh", text),), "")
    with pytest.raises(ExportRefused, match="calls would be there twice"):
        _require_no_state(load_problem(problem), parts)


def test_variables_that_do_not_change_and_those_of_elsewhere_are_no_state():
    from astra_kernels.extraction.syntax import variables

    text = (
        "constexpr int a = 3;\nstatic const int b = 4;\nextern int c;\nvoid f(int d);\nusing e = int;\n"
        "static __constant__ const float g[2] = {1, 2};\nnamespace n {\nint h = 1;\nvoid i() { static int j; }\n}\n"
    )
    assert variables(text) == {"h"}
