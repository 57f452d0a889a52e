"""What of a candidate's sources is shown."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from astra_kernels.agents.source_view import source_view
from astra_kernels.importers.problem_dir import load_problem

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"


def test_a_small_program_is_shown_whole_the_entry_point_first():
    sources = {"a.cuh": "int a;\n", "k.cu": '#include "a.cuh"\n'}
    view = source_view(sources, "k.cu")
    assert [(e.path, e.text, e.whole) for e in view] == [
        ("k.cu", sources["k.cu"], True),
        ("a.cuh", sources["a.cuh"], True),
    ]


@pytest.mark.flashinfer
@pytest.mark.parametrize(
    ("name", "needed"),
    [
        ("silu_and_mul", ["act_and_mul_kernel"]),
        ("fused_add_rmsnorm", ["FusedAddRMSNormKernel", "cudaError_t FusedAddRMSNorm("]),
        ("merge_state", ["MergeStateKernel", "cudaError_t MergeState(", "ptx_exp2"]),
    ],
)
def test_of_a_header_library_what_the_entry_point_reaches(name, needed):
    baseline = load_problem(EXAMPLES / f"flashinfer_{name}", None).baseline
    view = source_view(baseline.sources, f"{name}.cu", 30_000)
    shown = "\n".join(e.text for e in view)
    assert len(shown) < 31_000 < sum(map(len, baseline.sources.values()))
    assert view[0].text == baseline.sources[f"{name}.cu"]
    for text in needed:
        assert text in shown
    for excerpt in view:
        lines = baseline.sources[excerpt.path].splitlines()
        assert excerpt.text.splitlines()[0].strip() in lines[excerpt.first_line - 1]


@given(st.dictionaries(st.sampled_from(["a.h", "b.h", "c.cuh"]), st.text()), st.integers(0, 200))
def test_any_text_is_shown_within_the_limit(headers, limit):
    entry = "int main() { return f(g); }"
    view = source_view({**headers, "k.cu": entry}, "k.cu", limit)
    assert view[0].text == entry
    assert sum(len(e.text) for e in view) <= max(limit, len(entry))
