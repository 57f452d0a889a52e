"""A last look at a kernel before the executor gets it, which believes every offset that it is given.

Each handler reads and writes registers of fixed widths. PTX as nvcc writes it always fits; text that was
changed by hand may not.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from astra_kernels.simulator.errors import UnsupportedPtx
from astra_kernels.simulator.lowering.matrices import kind_of, register_counts
from astra_kernels.simulator.lowering.microcode import Kind, Microcode, MicroOp, Space, Value
from astra_kernels.simulator.lowering.translate import OperationTable

_P, _W, _D = Kind.PRED, Kind.LANES32, Kind.LANES64
_ADDRESS = (_W, _D)
_ELEMENT_BYTES = (1, 2, 4, 8)
_COPY_BYTES = (4, 8, 16)
_MEETING = 6  # sources of an instruction for which lanes meet; the last one names the lanes
# The kinds of results and sources, where they are always the same. Absent ones may always be None.
_FIXED: dict[str, tuple[tuple[Kind, ...], tuple[Kind, ...]]] = {
    "branch": ((), ()),
    "exit": ((), ()),
    "trap": ((), ()),
    "nop": ((), ()),
    "grid_wait": ((), ()),
    "copy_commit": ((), ()),
    "copy_wait": ((), ()),
    "active_mask": ((_W,), ()),
    "clock": ((_D,), ()),
    "discard": ((), (_D,)),
    "print": ((_W,), (_D, _D)),
    "assert_fail": ((), (_D, _D, _W, _D)),
    "barrier_arrive": ((), (_W, _W)),
    "warp_barrier": ((), ()),
    "shuffle": ((_W, _P), (_W, _W, _W)),
    "reduce": ((_W,), (_W,)),
    "elect": ((_W, _P), ()),
    "transpose_matrix": ((_W,), (_W,)),
}
_LANES_MEET = frozenset(
    {
        "warp_barrier", "shuffle", "vote", "match", "reduce", "elect",
        "multiply_matrices", "load_matrices", "store_matrices", "transpose_matrix",
    }
)  # fmt: skip
# Sources without which a handler has nothing to do.
_NEEDED = {
    "print": 2,
    "assert_fail": 4,
    "barrier": 1,
    "barrier_arrive": 1,
    "shuffle": 3,
    "reduce": 1,
}
_NEEDED |= {
    "vote": 1,
    "match": 1,
    "load": 1,
    "copy_async": 2,
    "discard": 1,
    "load_matrices": 1,
    "transpose_matrix": 1,
}


def _fits(values: Sequence[Value | None], kinds: Sequence[Kind]) -> bool:
    if len(values) > len(kinds):
        return False
    return all(v is None or v.kind == kind for v, kind in zip(values, kinds, strict=False))


def _is_address(operation: MicroOp) -> bool:
    return bool(operation.sources) and getattr(operation.sources[0], "kind", None) in _ADDRESS


def _access(operation: MicroOp) -> bool:
    memory = operation.memory
    kind = memory.register_kind
    if memory.element_bytes not in _ELEMENT_BYTES or memory.elements not in (1, 2, 4):
        return False
    return _is_address(operation) and kind in _ADDRESS and (kind == _D or memory.element_bytes < 8)


def _load(operation: MicroOp) -> bool:
    memory = operation.memory
    kinds = [memory.register_kind] * memory.elements
    whole = len(operation.results) == memory.elements and len(operation.sources) == 1
    return _access(operation) and whole and _fits(operation.results, kinds)


def _store(operation: MicroOp) -> bool:
    memory = operation.memory
    data = operation.sources[1:]
    whole = len(data) == memory.elements and None not in data and not operation.results
    return _access(operation) and whole and _fits(data, [memory.register_kind] * memory.elements)


def _atomic(operation: MicroOp) -> bool:
    memory, data = operation.memory, operation.sources[1:]
    swaps = operation.operation.startswith("cas.")
    expected = 2 if swaps else memory.elements
    wide = memory.register_kind == (_D if memory.element_bytes == 8 else _W)
    whole = len(data) == expected and None not in data and not (swaps and memory.elements > 1)
    kinds = [memory.register_kind] * 4
    fits = _fits(operation.results, kinds) and _fits(data, kinds)
    return _access(operation) and wide and whole and fits


def _copy(operation: MicroOp) -> bool:
    sized = operation.memory.element_bytes in _COPY_BYTES
    return sized and _is_address(operation) and _fits(operation.sources[1:], (_D, _W))


def _barrier(operation: MicroOp) -> bool:
    result = {0: (), 1: (_W,)}.get(operation.mode, (_P,))
    return _fits(operation.results, result) and _fits(operation.sources, (_W, _W, _P))


def _vote(operation: MicroOp) -> bool:
    ballot = 3
    return _fits(operation.results, (_W if operation.mode == ballot else _P,)) and _fits(
        operation.sources[:1], (_P,)
    )


def _match(operation: MicroOp) -> bool:
    kind = _D if operation.memory.element_bytes == 8 else _W
    return _fits(operation.results, (_W, _P)) and _fits(operation.sources[:1], (kind,))


def _rows(operation: MicroOp) -> bool:
    count, data = operation.mode & 7, operation.sources[1:5]
    shared = operation.memory.space == Space.SHARED and operation.memory.element_bytes == 16
    held = operation.results if operation.handler == "load_matrices" else data[:count]
    complete = operation.handler == "load_matrices" or None not in held
    return (
        shared
        and _is_address(operation)
        and complete
        and len(held) == count
        and _fits(held, [_W] * 4)
    )


def _product(operation: MicroOp) -> bool:
    matrix = operation.matrix
    if matrix is None:
        return False
    a, b, c, d = matrix.types
    results, *sources = register_counts(matrix)
    kinds = [
        kind_of(ptx_type)
        for ptx_type, count in zip((a, b, c), sources, strict=True)
        for _ in range(count)
    ]
    listed = operation.sources[_MEETING:]
    whole = len(operation.results) == results and len(listed) == len(kinds) and None not in listed
    return whole and _fits(operation.results, [kind_of(d)] * results) and _fits(listed, kinds)


_CHECKS: dict[str, Callable[[MicroOp], bool]] = {
    "load": _load,
    "store": _store,
    "atomic": _atomic,
    "copy_async": _copy,
    "barrier": _barrier,
    "vote": _vote,
    "match": _match,
    "load_matrices": _rows,
    "store_matrices": _rows,
    "multiply_matrices": _product,
}


def _meets(operation: MicroOp) -> bool:
    members = operation.sources[_MEETING - 1] if len(operation.sources) >= _MEETING else None
    return members is not None and members.kind == _W


def _is_sound(operation: MicroOp, table: OperationTable, labels: dict[str, int]) -> bool:
    handler, sources = operation.handler, operation.sources
    if operation.guard is not None and operation.guard[0].kind != _P:
        return False
    if any(source is None for source in sources[: _NEEDED.get(handler, 0)]):
        return False
    if len(sources) < _NEEDED.get(handler, 0):
        return False
    if handler == "elementwise":
        kinds = table.elementwise.get(operation.operation)
        whole = kinds is not None and len(operation.results) == 1 and len(sources) == len(kinds[1])
        whole = whole and None not in sources and None not in operation.results
        return (
            kinds is not None
            and whole
            and _fits(operation.results, kinds[:1])
            and _fits(sources, kinds[1])
        )
    if handler == "branch" and operation.target not in labels:
        return False
    if handler in _LANES_MEET and not _meets(operation):
        return False
    if handler in _CHECKS:
        return _CHECKS[handler](operation)
    results, expected = _FIXED[handler]
    named = sources[: _MEETING - 1] if handler in _LANES_MEET else sources
    listed = tuple(source for source in named if source is not None)
    return _fits(operation.results, results) and _fits(listed, expected)


def check_microcode(kernel: str, microcode: Microcode, table: OperationTable) -> None:
    """Look whether every operand has the width with which its handler uses it.

    Raises:
        UnsupportedPtx: One does not, or an operation lacks what it needs.
    """
    for operation in microcode.operations:
        if not _is_sound(operation, table, microcode.labels):
            instruction = operation.instruction
            text, line = (instruction.text, instruction.line) if instruction else ("", None)
            raise UnsupportedPtx(kernel, text, "operands of these widths", line)
