"""Which blocks of a large grid run when only a sample does."""

from hypothesis import given
from hypothesis import strategies as st

from astra_kernels.simulator import SimulatorOptions
from astra_kernels.simulator.launching import choose_blocks


@given(st.integers(1, 100_000), st.integers(2, 200), st.integers(0, 3))
def test_a_sample_spreads_over_the_grid(blocks, wanted, seed):
    chosen = choose_blocks(blocks, SimulatorOptions(block_sample=wanted, seed=seed))
    if wanted >= blocks:
        assert chosen is None
        return
    assert len(set(chosen.tolist())) == wanted
    assert (chosen[0], chosen[-1]) == (0, blocks - 1)
    stretch = -(-(blocks - 2) // max(1, wanted - 2))
    assert max(chosen[1:] - chosen[:-1]) <= 2 * stretch, "no region of the grid is left out"


def test_the_same_seed_gives_the_same_sample():
    options = SimulatorOptions(block_sample=16, seed=7)
    assert choose_blocks(1000, options).tolist() == choose_blocks(1000, options).tolist()
