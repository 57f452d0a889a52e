"""Random control-flow graphs, and walks through them."""

import random

from hypothesis import strategies as st

MOST_STEPS = 2000


@st.composite
def graphs(draw):
    """Up to 9 blocks with one or two successors each; the last one ends."""
    number = draw(st.integers(2, 9))
    blocks = [
        tuple(draw(st.lists(st.integers(1, number), min_size=1, max_size=2, unique=True)))
        for _ in range(number - 1)
    ]
    return [*blocks, (number,)]


def walk(successors, choose: random.Random) -> list[int] | None:
    """How often a thread ran each block; None where it did not come to the end."""
    counts = [0] * len(successors)
    block = 0
    for _ in range(MOST_STEPS):
        counts[block] += 1
        block = choose.choice(successors[block])
        if block == len(successors):
            return counts
    return None
