"""Every baseline builds as it stands, in a way that a framework would ship."""

from example_problems import EXAMPLES, each_problem

from astra_kernels.importers.problem_dir import load_problem
from astra_kernels.languages.cuda.admission import Submission, examine


@each_problem(compiled=True)
def test_it_builds_without_warnings_or_spills(built, name):
    outcome = built(name)
    assert not outcome.warnings
    assert outcome.kernels
    for kernel in outcome.kernels:
        assert kernel.spill_store_bytes == kernel.spill_load_bytes == 0
        assert kernel.registers <= 40  # 1024 threads fit, most kernels twice


@each_problem(compiled=True)
def test_loads_are_sixteen_bytes_wide(built, name):
    """The library carries its PTX as text."""
    ptx = built(name).library.read_bytes()
    assert b"ld.global.nc.v4" in ptx or b"ld.global.v4" in ptx
    assert b"st.global.v4" in ptx


@each_problem(compiled=True)
def test_it_asks_for_nothing_that_a_candidate_may_not(built, name):
    sources, library = load_problem(EXAMPLES / name).baseline.sources, built(name)
    found = examine(Submission(sources, library.library.read_bytes(), library.symbols), None)
    assert not [f for f in found if f.weight == "rejecting"]
