"""Sizes of tensors, read off what a host function checks and names: a guess, which is said to be one."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field

from astra_kernels.extraction.syntax import without_comments

Place = tuple[str, int]
"""A tensor and one of its dimensions."""

_SIZE = r"(\w+)\.(?:size|shape)\((-?\d+)\)"
_EQUAL = (
    re.compile(rf"_EQ\(\s*{_SIZE}\s*,\s*{_SIZE}\s*\)"),
    re.compile(rf"{_SIZE}\s*==\s*{_SIZE}(?!\s*[*/])"),
)
_NAMED = re.compile(rf"(\w+)\s*=\s*(?:static_cast<[^>]*>\(\s*)?{_SIZE}\s*\)?\s*(/\s*2)?\s*;")
_NAMED_EQUAL = re.compile(rf"_EQ\(\s*{_SIZE}\s*,\s*(\w+)\s*\)")
# What a check demands, not what a branch asks for.
_LITERAL = re.compile(
    rf"_EQ\(\s*{_SIZE}\s*,\s*(\d+)\s*\)|CHECK\w*\(\s*{_SIZE}\s*==\s*(\d+)\b(?!\s*\*)"
)
_TWICE = re.compile(rf"{_SIZE}\s*==\s*2\s*\*\s*{_SIZE}")
_ROWS = re.compile(r"(\w+)\s*=\s*(\w+)\.numel\(\)\s*/\s*(?:\2\.size\(-1\)|(\w+))\s*;")
_RANK = (
    re.compile(r"CHECK_DIM\(\s*(\d+)\s*,\s*(\w+)\s*\)"),
    re.compile(r"(?P<t>\w+)\.(?:dim|ndim)\(\)\s*==\s*(?P<n>\d+)"),
)
_SAME = re.compile(
    r"CHECK_(?:SAME_)?SHAPE\(\s*(\w+)\s*,\s*(\w+)\s*\)|(\w+)\.sizes\(\)\s*==\s*(\w+)\.sizes\(\)"
)
_COMMENTED = re.compile(r"(\w+)\s*(,|\)[ {]*)\s*(?://|/\*)\s*\[([^\]\n]+)\]")
_DOUBLE = re.compile(r"2 ?\* ?([A-Za-z_]\w*)|([A-Za-z_]\w*) ?\* ?2")
_KNOWN = re.compile(rf"[A-Za-z_]\w*|[1-9]\d*|{_DOUBLE.pattern}")
_ONE_DIMENSIONAL = re.compile(r"weight|gamma|beta|bias|scale|indptr|indices|positions|lengths")


@dataclass
class Shapes:
    """Axis names of every tensor, and what the axes are."""

    shapes: dict[str, tuple[str, ...]]
    axes: dict[str, dict[str, object]]
    guesses: list[str] = field(default_factory=list)


class _Groups:
    """Dimensions that are equal."""

    def __init__(self) -> None:
        self._parent: dict[Place, Place] = {}

    def find(self, place: Place) -> Place:
        while self._parent.get(place, place) != place:
            place = self._parent[place]
        return place

    def join(self, first: Place, second: Place) -> None:
        self._parent[self.find(first)] = self.find(second)


def shapes_of(text: str, tensors: tuple[str, ...], outputs: frozenset[str]) -> Shapes:
    """The shapes of a host function's tensors.

    Args:
        text: the function.
        tensors: its tensor parameters in order.
        outputs: those that are written.
    """
    body = without_comments(text)
    stated = stated_shapes(text, tensors)
    ranks = {**_ranks(body, tensors), **{name: len(shape) for name, shape in stated.items()}}
    guesses: list[str] = []
    known = {name: ranks[name] for name in tensors if name in ranks}
    widest = max(known.values(), default=2)
    for name in tensors:
        if name not in known:
            known[name] = 1 if _ONE_DIMENSIONAL.search(name) else widest
            guesses.append(f"{name} is taken to have {known[name]} dimensions")
    groups = _Groups()
    names, halves = _relations(body, known, groups)
    literals = _literals(body, known)
    settled = {
        place: size for name, shape in stated.items() for place, size in _places(name, shape)
    }
    names |= {place: size for place, size in settled.items() if size.isidentifier()}
    twice = {place: _DOUBLE.fullmatch(size) for place, size in settled.items()}
    halves = {p: n for p, n in halves.items() if p not in settled}
    halves |= {place: found[1] or found[2] for place, found in twice.items() if found}
    literals |= {place: int(size) for place, size in settled.items() if size.isdigit()}
    if stated:
        guesses.append(f"shapes are those of the comments for {', '.join(stated)}")
    _joined_by_habit(known, outputs, groups, {**halves, **literals, **settled})
    fixed = {groups.find(place): size for place, size in literals.items()}
    return _named(known, groups, (names, halves, fixed), guesses)


def _places(name: str, shape: tuple[str, ...]) -> Iterator[tuple[Place, str]]:
    for index, size in enumerate(shape):
        yield (name, index), size


def stated_shapes(text: str, tensors: tuple[str, ...]) -> dict[str, tuple[str, ...]]:
    """Shapes that comments behind the parameters give, as vLLM's do: `torch::Tensor& out,  // [..., 2 * d]`.

    Sizes are names, numbers and twice a name; dots stand for `tokens`. Others are not taken.
    """
    head, _, body = text.partition("{")
    head += body.partition("\n")[0]
    found: dict[str, tuple[str, ...]] = {}
    for name, _, comment in _COMMENTED.findall(head):
        sizes = tuple(
            "tokens" if size.strip() == "..." else " ".join(size.split())
            for size in comment.split(",")
        )
        if name in tensors and all(_KNOWN.fullmatch(size) for size in sizes):
            found[name] = sizes
    return found


def _ranks(body: str, tensors: tuple[str, ...]) -> dict[str, int]:
    found: dict[str, int] = {}
    for rank, name in _RANK[0].findall(body):
        found[name] = int(rank)
    for match in _RANK[1].finditer(body):
        found[match["t"]] = int(match["n"])
    for name, index in re.findall(_SIZE, body):
        if int(index) >= 0 and name not in found:
            found[name] = max(found.get(name, 0), int(index) + 1)
    return {n: r for n, r in found.items() if n in tensors and r > 0}


def _literals(body: str, ranks: dict[str, int]) -> dict[Place, int]:
    """Dimensions that the function checks to have a size that stands there as a number."""
    found: dict[Place, int] = {}
    for a, i, first, b, j, second in _LITERAL.findall(body):
        place, size = _place(a or b, i or j, ranks), int(first or second)
        if place and size > 0:
            found[place] = size
    return found


def _place(name: str, index: str, ranks: dict[str, int]) -> Place | None:
    if name not in ranks or not -ranks[name] <= int(index) < ranks[name]:
        return None
    return name, int(index) % ranks[name]


def _relations(
    body: str, ranks: dict[str, int], groups: _Groups
) -> tuple[dict[Place, str], dict[Place, str]]:
    """Names of dimensions, and dimensions that are twice a name; equal ones are joined."""
    names: dict[Place, str] = {}
    halves: dict[Place, str] = {}
    _join_equal(body, ranks, groups)
    for name, tensor, index, half in _NAMED.findall(body):
        place = _place(tensor, index, ranks)
        if place and half:
            halves[place] = name
        elif place:
            names[place] = name
    for tensor, index, name in _NAMED_EQUAL.findall(body):
        place = _place(tensor, index, ranks)
        if place and not name.isdigit():
            names.setdefault(place, name)
    for a, i, b, j in _TWICE.findall(body):
        first, second = _place(a, i, ranks), _place(b, j, ranks)
        if first and second:
            names.setdefault(second, halves.get(first, "hidden"))
            halves[first] = names[second]
    for name, tensor, _ in _ROWS.findall(body):
        if ranks.get(tensor, 0) == 2:
            names[tensor, 0] = name
    return names, halves


def _join_equal(body: str, ranks: dict[str, int], groups: _Groups) -> None:
    """Joins dimensions that the function checks to be equal."""
    for pattern in _EQUAL:
        for a, i, b, j in pattern.findall(body):
            first, second = _place(a, i, ranks), _place(b, j, ranks)
            if first and second:
                groups.join(first, second)
    for one, other, third, fourth in _SAME.findall(body):
        first_name, second_name = one or third, other or fourth
        if ranks.get(first_name, 0) == ranks.get(second_name, -1):
            for index in range(ranks[first_name]):
                groups.join((first_name, index), (second_name, index))


def _is_free(name: str, groups: _Groups, last: Place, settled: Collection[Place]) -> bool:
    place = (name, 0)
    return groups.find(place) == place and place not in settled and last not in settled


def _joined_by_habit(
    ranks: dict[str, int],
    outputs: frozenset[str],
    groups: _Groups,
    settled: Collection[Place],
) -> None:
    """Outputs are as the first tensor of their rank, and vectors as long as its rows, unless something else is said."""
    lead = next((n for n in ranks if n not in outputs and ranks[n] > 1), None)
    if lead is None:
        lead = next(iter(ranks), None)
    if lead is None:
        return
    for name, rank in ranks.items():
        if rank == ranks[lead] and name != lead:
            for index in range(rank):
                if (lead, index) not in settled and (name, index) not in settled:
                    groups.join((name, index), (lead, index))
        elif (
            rank == 1
            and ranks[lead] > 1
            and _is_free(name, groups, (lead, ranks[lead] - 1), settled)
        ):
            groups.join((name, 0), (lead, ranks[lead] - 1))


def _named(
    ranks: dict[str, int],
    groups: _Groups,
    relations: tuple[dict[Place, str], dict[Place, str], dict[Place, int]],
    guesses: list[str],
) -> Shapes:
    names, halves, fixed = relations
    by_group = {groups.find(p): n for p, n in reversed(list(names.items()))}
    doubled = {groups.find(p): n for p, n in halves.items()}
    axes: dict[str, dict[str, object]] = {}
    shapes: dict[str, tuple[str, ...]] = {}
    for tensor, rank in ranks.items():
        shape: list[str] = []
        for index in range(rank):
            group = groups.find((tensor, index))
            if group in fixed:
                axis = "one" if fixed[group] == 1 else f"size_{fixed[group]}"
                axes[axis] = {"type": "const", "value": fixed[group]}
            elif group in doubled:
                axis = f"two_{doubled[group]}"
                axes[axis] = {"type": "expr", "expression": f"2 * {doubled[group]}"}
                axes.setdefault(doubled[group], {"type": "var"})
            else:
                axis = by_group.setdefault(group, _free_name(index, rank, axes, doubled))
                axes.setdefault(axis, {"type": "var"})
            shape.append(axis)
        shapes[tensor] = tuple(shape)
    return Shapes(shapes, axes, guesses)


def _free_name(
    index: int, rank: int, axes: dict[str, dict[str, object]], doubled: dict[Place, str]
) -> str:
    if index == rank - 1 and doubled:
        return next(iter(doubled.values()))
    usual = ("tokens", "heads", "head_dim") if rank == 3 else ("tokens", "hidden")
    name = usual[index] if index < len(usual) else f"dim{index}"
    if rank == 1:
        name = "elements"
    while name in axes:
        name += "_b"
    return name
