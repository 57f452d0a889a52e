"""Barriers dropped one at a time, against docs/barriers.md."""

import pytest

from tests.simulator import barriers

SAMPLE = ("norms", "warps")


@pytest.fixture(scope="module")
def written(repository):
    return (repository / "docs" / "barriers.md").read_text()


def test_no_dropped_barrier_is_missed(device, built, written):
    """Those of two files; the compiled kernels are those of other tests."""
    rows = list(barriers.rows(device, {name: built[name] for name in SAMPLE}))
    assert len(rows) > 10
    lines = [line for line in barriers.page(rows).splitlines() if line.startswith("| `")]
    assert len(lines) == len(rows)
    for line in lines:
        assert line in written
    named = [x for x in written.splitlines() if any(f"cu/{name}.cu`" in x for name in SAMPLE)]
    assert named == lines


def test_a_barrier_that_nothing_catches_needs_a_reason(device, built):
    case = next(c for c in barriers.CASES if c.entry == "shared")
    (row,) = barriers.drops(device, device.simulator.load(built["faults"]), case)
    assert row.caught == ""
    assert "wrote itself" in barriers.page([row])
    unknown = barriers.Dropped(case, "another_kernel", row.line, "")
    with pytest.raises(ValueError, match=r"another_kernel is neither caught nor known"):
        barriers.page([unknown])


@pytest.mark.full
@pytest.mark.flashinfer
def test_the_whole_table(device, toolchain, tmp_path, written):
    libraries = barriers.compiled(toolchain, tmp_path)
    assert barriers.page(list(barriers.rows(device, libraries))) == written
