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


class Structured:
    """A program of branches and loops: its graph, and what a warp whose lanes part runs of it.

    A warp runs both sides of a branch that its lanes part at, and a loop until the last lane has left.
    """

    def __init__(self, choose: random.Random, lanes: int = 4) -> None:
        self._choose = choose
        self.successors: list[list[int]] = []
        program = [self._statement(3) for _ in range(choose.randint(1, 3))]
        first, last = self._emit([("plain",), *program, ("plain",)])
        assert first == 0
        self.successors[last].append(len(self.successors))
        self._numbered = iter(range(len(self.successors)))
        self.counts = [0] * len(self.successors)
        self._plan = [("plain",), *program, ("plain",)]
        self._lanes = lanes

    def run(self) -> None:
        """One more warp."""
        self._numbered = iter(range(len(self.successors)))
        self._run(self._number(self._plan), self._lanes)

    def _statement(self, depth: int) -> tuple:
        kind = self._choose.choice(["plain", "if", "either", "loop"]) if depth else "plain"
        inside = [
            [self._statement(depth - 1)] for _ in range({"either": 2, "plain": 0}.get(kind, 1))
        ]
        return (kind, *inside)

    def _block(self) -> int:
        self.successors.append([])
        return len(self.successors) - 1

    def _emit(self, statements: list) -> tuple[int, int]:
        """Adds the blocks of statements; gives the first and the last of them."""
        first = last = None
        for kind, *inside in statements:
            start = end = self._block()
            if kind == "loop":
                _, end = self._follow(start, inside[0])
                latch = self._block()
                self.successors[end].append(latch)
                self.successors[latch].append(start)
                end = latch
            elif kind != "plain":
                ends = [self._follow(start, part)[1] for part in inside]
                end = self._block()
                for each in ends if kind == "either" else [start, *ends]:
                    self.successors[each].append(end)
            if last is not None:
                self.successors[last].append(start)
            first, last = start if first is None else first, end
        return first, last

    def _follow(self, start: int, statements: list) -> tuple[int, int]:
        first, last = self._emit(statements)
        self.successors[start].append(first)
        return first, last

    def _number(self, statements: list) -> list:
        """Statements with the numbers of their blocks, in the order in which they were added."""
        found = []
        for kind, *inside in statements:
            start = next(self._numbered)
            parts = [self._number(part) for part in inside]
            found.append((kind, start, parts, start if kind == "plain" else next(self._numbered)))
        return found

    def _run(self, statements: list, lanes: int) -> None:
        for kind, start, parts, end in statements:
            left = lanes
            while left:
                self.counts[start] += 1
                if kind == "loop":
                    self._run(parts[0], left)
                elif kind != "plain":
                    taken = self._choose.randint(0, left)
                    for part, some in zip(parts, (taken, left - taken), strict=False):
                        if some:
                            self._run(part, some)
                self.counts[end] += end != start
                left = self._choose.randint(0, left) if kind == "loop" else 0
