"""What was taken out is compared with the whole original."""

import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from astra_kernels.errors import UserError
from astra_kernels.extraction.equivalence import compared, instructions
from astra_kernels.extraction.extract import Wanted, extract, original_of
from astra_kernels.importers.problem_dir import load_problem

TREES = Path(__file__).parent / "trees"
LISTING = """
\t.section\t.text._Z5firstPf,"ax",@progbits
        /*0000*/                   LDC R1, c[0x0][0x28] ;
.L_x_7:
        /*0010*/              @!P0 BRA `(.L_x_7) ;
\t.section\t.text._ZN51_GLOBAL__N__0123abcd_9_kernel_cu_0123abcd_456secondEv,"ax",@progbits
        /*0000*/                   EXIT ;
"""


def test_names_that_differ_from_build_to_build_do_not_count():
    again = LISTING.replace(".L_x_7", ".L_x_93").replace("N__0123abcd_", "N__89ef0123_")
    assert instructions(LISTING) == instructions(again)
    assert len(instructions(LISTING)) == 2
    assert instructions(LISTING.replace("0x28", "0x30")) != instructions(LISTING)


@pytest.mark.full
def test_another_original_is_told_apart(tmp_path, build_cache):
    tree = shutil.copytree(TREES / "engine", tmp_path / "tree")
    made = extract(
        Wanted("rms_norm", str(tree), tmp_path / "made", cache=build_cache, compare=True)
    )
    said = made.notes[-1]
    assert "0 not; outputs are equal, element for element" in said, said
    assert said in (made.directory / "PROVENANCE.md").read_text()
    original = original_of(made.directory, str(tree))
    text = original.sources[original.entry]
    other = text.replace("x * scale *", "x * scale * 1.0009765625f *")
    assert other != text
    changed = replace(original, sources={**original.sources, original.entry: other})
    found = compared(load_problem(made.directory), made.directory, changed, build_cache)
    assert found.different and not found.workloads
    assert "incorrect" in found.reason


def test_a_problem_that_was_not_extracted_has_no_original(tmp_path):
    example = Path(__file__).parents[2] / "examples" / "silu_and_mul"
    with pytest.raises(UserError, match=r"has no provenance\.json"):
        original_of(example, str(tmp_path))
