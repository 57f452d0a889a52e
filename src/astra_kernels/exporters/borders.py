"""Workloads at, inside and just outside of a guard's borders, made of a problem's own."""

from __future__ import annotations

from collections.abc import Iterator

from astra_kernels.exporters.regions import Region
from astra_kernels.records.problem import Problem
from astra_kernels.records.workload import SafetensorsInput, Workload

_MOST_REGIONS = 4


def border_sizes(problem: Problem, found: tuple[Region, ...]) -> tuple[dict[str, int], ...]:
    """Sizes on both sides of the borders of the first few regions, as far as the definition allows them."""
    made: dict[tuple[tuple[str, int], ...], dict[str, int]] = {}
    for region in found[:_MOST_REGIONS]:
        for sizes in _around(problem, region):
            try:
                problem.definition.resolve_axes(sizes)
            except ValueError:
                continue
            made.setdefault(tuple(sorted(sizes.items())), sizes)
    return tuple(made.values())


def _around(problem: Problem, region: Region) -> Iterator[dict[str, int]]:
    axes = problem.definition.var_axes
    if region.axis:
        domain = axes[region.axis].domain
        step = domain.multiple_of if domain is not None else 1
        wanted = {region.low - step, region.low, region.high, region.high + step}
        wanted |= set(_between(region.low, region.high, step))
        yield from (region.sizes(size) for size in sorted(wanted) if size > 0)
    for name, size in region.exact:
        domain = axes[name].domain
        step = domain.multiple_of if domain is not None else 1
        yield {**region.sizes(region.low), name: size + step}


def _between(low: int, high: int, step: int) -> Iterator[int]:
    """Sizes inside that no one timed: next to both ends, in the middle, and odd multiples in each quarter.

    A kernel that is right at round sizes may leave out the last row or the last vector of others.
    """
    first, last = -(-low // step), high // step
    quarters = (first + (last - first) * part // 4 for part in (1, 2, 3))
    for multiple in (first + 1, last - 1, (first + last) // 2, *(q | 1 for q in quarters)):
        if first < multiple < last:
            yield multiple * step


def border_workloads(problem: Problem, found: tuple[Region, ...]) -> tuple[Workload, ...]:
    """Untimed workloads of these sizes; none where every workload takes an input from a file."""
    template = next(
        (
            w
            for w in problem.workloads
            if not any(isinstance(s, SafetensorsInput) for s in w.inputs.values())
        ),
        None,
    )
    if template is None:
        return ()
    taken = {tuple(sorted(w.axes.items())) for w in problem.workloads}
    made: list[Workload] = []
    for sizes in border_sizes(problem, found):
        if tuple(sorted(sizes.items())) in taken:
            continue
        name = "border-" + "-".join(f"{axis}-{size}" for axis, size in sizes.items())
        made.append(
            template.model_copy(
                update={"uuid": name, "axes": sizes, "timed": False, "weight": None}
            )
        )
    return tuple(made)
