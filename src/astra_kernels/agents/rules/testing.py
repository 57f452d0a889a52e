"""Systematic workloads: the sizes and values at which hand-written kernels break.

Sizes: 1, a prime, one below and one above a vector, a warp, a block of vectors. Values: zeros, large magnitudes, subnormals,
infinities, NaNs, ties, constant rows. Every proposal is small, since it is judged again with every candidate.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import cycle, islice

from astra_kernels.records.definition import AxisDomain, Definition
from astra_kernels.records.problem import Problem
from astra_kernels.records.sizes import contiguous_axes, total_elements
from astra_kernels.records.workload import (
    CustomInput,
    Distribution,
    InputSource,
    RandomInput,
    SafetensorsInput,
    ScalarInput,
    Workload,
)

_CONTIGUOUS_SIZES = (1, 7, 33, 257, 1031, 2056, 128, 4104)
"""Below and above 8 elements (16 bytes of fp16), a warp and 256 threads of one or 8 elements; primes; plain powers."""
_OUTER_SIZES = (1, 3, 2, 17, 1, 5, 4, 2)
_VALUES: tuple[Distribution, ...] = (
    "normal",
    "zeros",
    "large",
    "denormal",
    "ties",
    "infinities",
    "nans",
    "constant_rows",
    "uniform",
)
_MAX_ELEMENTS = 1 << 20


class RuleTester:
    """Proposes one workload per kind of value, at sizes around the usual boundaries."""

    def propose(self, problem: Problem) -> tuple[Workload, ...]:
        """Further workloads, to be checked but not timed."""
        template = problem.workloads[0]
        if any(isinstance(s, SafetensorsInput) for s in template.inputs.values()):
            return ()
        seen = {tuple(sorted(w.axes.items())) for w in problem.workloads}
        proposals: list[Workload] = []
        for sizes, values in zip(_sizes(problem.definition, problem), _VALUES, strict=False):
            inputs = {n: _source(s, values) for n, s in template.inputs.items()}
            name = "-".join(f"{axis}{size}" for axis, size in sizes.items())
            workload = Workload(
                uuid=f"test-{name}-{values}", axes=sizes, inputs=inputs, timed=False
            )
            known = tuple(sorted(sizes.items())) in seen and values == "normal"
            if not known and _fits(problem.definition, workload):
                proposals.append(workload)
        return tuple(proposals)


def _source(template: InputSource, values: Distribution) -> InputSource:
    if isinstance(template, ScalarInput | CustomInput):
        return template
    return RandomInput(distribution=values)


def _sizes(definition: Definition, problem: Problem) -> Iterator[dict[str, int]]:
    """Sizes for every var axis, one combination after the other."""
    contiguous = contiguous_axes(definition)
    largest = {a: max(w.axes[a] for w in problem.workloads) for a in definition.var_axes}
    sequences = {}
    for shift, axis in enumerate(definition.var_axes):
        domain = definition.var_axes[axis].domain or AxisDomain(max=largest[axis])
        wanted = _CONTIGUOUS_SIZES if axis in contiguous else _OUTER_SIZES
        turned = islice(cycle(wanted), shift, shift + len(wanted))
        sequences[axis] = [_legal(size, domain) for size in turned]
    for index in range(len(_VALUES)):
        yield {axis: sizes[index % len(sizes)] for axis, sizes in sequences.items()}


def _legal(size: int, domain: AxisDomain) -> int:
    """The nearest size that the domain allows, upwards where possible."""
    step = domain.multiple_of
    lowest = math.ceil(domain.min / step) * step or step
    legal = max(math.ceil(size / step) * step, lowest)
    if domain.max is not None and legal > domain.max:
        legal = domain.max // step * step
    return legal


def _fits(definition: Definition, workload: Workload) -> bool:
    """Whether the workload is legal (constraints may forbid it) and small."""
    try:
        workload.check_against(definition)
        axes = definition.resolve_axes(workload.axes)
    except ValueError:
        return False
    return total_elements(definition, axes) <= _MAX_ELEMENTS
