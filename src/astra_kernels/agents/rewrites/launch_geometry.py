"""How many threads a block has, and how many blocks share a row."""

from __future__ import annotations

from astra_kernels.agents.rewrites.block_size import change_block, geometries
from astra_kernels.agents.rewrites.program import Applied, ParameterPoint, Program, Refused
from astra_kernels.agents.rewrites.reach import reach
from astra_kernels.agents.rewrites.row_split import split_rows

_SIZES = (64, 128, 256, 512, 1024)
_SPLITS = (4, 8, 2, 16)


class LaunchGeometry:
    """Changes the block size or splits rows over blocks; a point does one or both."""

    name = "launch_geometry"
    technique = "launch_geometry"
    sample = ParameterPoint.of(block=256)

    def parameters(self, program: Program) -> tuple[ParameterPoint, ...]:
        """Returns the splits and block sizes that apply, nearest sizes first."""
        reachable = reach(program)
        if isinstance(reachable, Refused):
            return ()
        points: list[ParameterPoint] = []
        if isinstance(split_rows(program, reachable, _SPLITS[0]), Applied):
            points += [ParameterPoint.of(split=factor) for factor in _SPLITS]
        found, _ = geometries(reachable)
        present = [geometry.seed.size for geometry in found]
        sizes = sorted(_SIZES, key=lambda size: min((_far(size, p) for p in present), default=0))
        for size in sizes:
            if isinstance(change_block(program, reachable, size), Applied):
                points.append(ParameterPoint.of(block=size))
        return tuple(points)

    def apply(self, program: Program, point: ParameterPoint) -> Applied | Refused:
        """Sets ``block`` threads per block, ``split`` blocks per row, or both."""
        size, factor = point.number("block", 0), point.number("split", 1)
        if (
            (size and size not in _SIZES)
            or factor not in (1, *_SPLITS)
            or (factor == 1 and not size)
        ):
            return Refused(f"no such geometry: {point}")
        result: Applied | Refused | None = None
        if size:
            reachable = reach(program)
            if isinstance(reachable, Refused):
                return reachable
            result = change_block(program, reachable, size)
        if factor == 1 or isinstance(result, Refused):
            return result or Refused(f"no such geometry: {point}")
        resized = program if result is None else program.with_sources(result.sources)
        reachable = reach(resized)
        if isinstance(reachable, Refused):
            return reachable
        split = split_rows(resized, reachable, factor)
        if result is None or isinstance(split, Refused):
            return split
        edits = tuple(sorted({*result.edits, *split.edits}, key=lambda e: (e.path, e.line)))
        return Applied(split.sources, f"{result.summary}, {split.summary}", edits)


def _far(size: int, present: int) -> float:
    """Returns by what factor two sizes differ."""
    return max(size / present, present / size)
