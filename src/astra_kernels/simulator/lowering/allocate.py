"""Virtual registers to slots: registers whose lives do not overlap share one.

A lane uses only its own lane of a slot, so liveness along each thread's control flow is enough, also
where the lanes of a warp are at different places.
"""

from __future__ import annotations

from dataclasses import dataclass

from astra_kernels.simulator.lowering.microcode import Kind, Microcode, MicroOp, Register

_SLOT_BYTES = {Kind.PRED: 4, Kind.LANES32: 128, Kind.LANES64: 256}


@dataclass(frozen=True)
class Slots:
    """Where each register lies in a warp's register file.

    Attributes:
        offsets: In bytes.
        total_bytes: The file's size.
        live_words: 32-bit registers a thread that it has room for.
    """

    offsets: dict[Register, int]
    total_bytes: int
    live_words: int


def _reads(operation: MicroOp) -> list[Register]:
    registers = [source for source in operation.sources if isinstance(source, Register)]
    if operation.guard:
        registers.append(operation.guard[0])
    return registers


def _successors(microcode: Microcode, index: int) -> list[int]:
    operation = microcode.operations[index]
    unconditional = operation.guard is None
    if operation.handler == "exit" and unconditional:
        return []
    following = [index + 1] if index + 1 < len(microcode.operations) else []
    if operation.handler == "branch" and operation.target is not None:
        target = microcode.labels[operation.target]
        return [target] if unconditional else [*following, target]
    return following


def block_starts(microcode: Microcode) -> list[int]:
    """Where the basic blocks of a kernel start."""
    starts = {0, *microcode.labels.values()}
    for index, operation in enumerate(microcode.operations):
        if operation.handler in ("branch", "exit"):
            starts.add(index + 1)
    return sorted(start for start in starts if start < len(microcode.operations))


def block_successors(microcode: Microcode) -> list[tuple[int, ...]]:
    """Which blocks may follow each; the number of blocks stands for the end of the thread."""
    starts = block_starts(microcode)
    block_at = {start: block for block, start in enumerate(starts)}
    found: list[tuple[int, ...]] = []
    for end in [*starts[1:], len(microcode.operations)]:
        following = [block_at[place] for place in _successors(microcode, end - 1)]
        ends = microcode.operations[end - 1].handler == "exit" or not following
        found.append((*following, len(starts)) if ends else tuple(following))
    return found


class _Liveness:
    """Which registers are live into and out of each basic block, as bit sets."""

    def __init__(self, microcode: Microcode) -> None:
        self.microcode = microcode
        self.numbers: dict[Register, int] = {}
        self.starts = block_starts(microcode)
        self.ends = [*self.starts[1:], len(microcode.operations)]
        block_at = {start: block for block, start in enumerate(self.starts)}
        self._used: list[int] = []
        self._defined: list[int] = []
        for start, end in zip(self.starts, self.ends, strict=True):
            self._scan(start, end)
        successors = [
            [block_at[place] for place in _successors(microcode, end - 1)] for end in self.ends
        ]
        self.live_in = [0] * len(self.starts)
        self.live_out = [0] * len(self.starts)
        self._solve(successors)

    def number(self, register: Register) -> int:
        return self.numbers.setdefault(register, len(self.numbers))

    def _scan(self, start: int, end: int) -> None:
        used = defined = 0
        for operation in self.microcode.operations[start:end]:
            for register in _reads(operation):
                bit = 1 << self.number(register)
                used |= bit & ~defined
            for result in operation.results:
                if result is not None:
                    bit = 1 << self.number(result)
                    if operation.guard is None:
                        defined |= bit
        self._used.append(used)
        self._defined.append(defined)

    def _solve(self, successors: list[list[int]]) -> None:
        changed = True
        while changed:
            changed = False
            for block in reversed(range(len(self.starts))):
                out = 0
                for successor in successors[block]:
                    out |= self.live_in[successor]
                into = self._used[block] | (out & ~self._defined[block])
                if (into, out) != (self.live_in[block], self.live_out[block]):
                    self.live_in[block], self.live_out[block] = into, out
                    changed = True


def _intervals(microcode: Microcode) -> dict[Register, tuple[int, int]]:
    """The stretch of the program in which each register is live.

    Micro-operation i reads at 2i and writes at 2i + 1.
    """
    liveness = _Liveness(microcode)
    count = len(liveness.numbers)
    first, last = [2 * len(microcode.operations)] * count, [-1] * count

    def touch(bits: int, at: int) -> None:
        while bits:
            low = bits & -bits
            number = low.bit_length() - 1
            first[number] = min(first[number], at)
            last[number] = max(last[number], at)
            bits ^= low

    for block, (start, end) in enumerate(zip(liveness.starts, liveness.ends, strict=True)):
        touch(liveness.live_in[block], 2 * start)
        touch(liveness.live_out[block], 2 * end - 1)
    for index, operation in enumerate(microcode.operations):
        for register in _reads(operation):
            touch(1 << liveness.number(register), 2 * index)
        for result in operation.results:
            if result is not None:
                touch(1 << liveness.number(result), 2 * index + 1)
    return {
        register: (first[number], last[number]) for register, number in liveness.numbers.items()
    }


def allocate_slots(microcode: Microcode, reserved_bytes: int) -> Slots:
    """Assign slots by a linear scan.

    A register may take the slot of one that is read for the last time by the same micro-operation:
    the executor reads all lanes before it writes any.

    Args:
        microcode: The kernel.
        reserved_bytes: At the start of the register file, for the thread's indices.
    """
    intervals = sorted(_intervals(microcode).items(), key=lambda item: item[1])
    offsets: dict[Register, int] = {}
    free: dict[Kind, list[int]] = {kind: [] for kind in _SLOT_BYTES}
    active: list[tuple[int, Register]] = []
    used = {kind: 0 for kind in _SLOT_BYTES}
    slots: dict[Register, int] = {}
    for register, (start, end) in intervals:
        still = []
        for finish, other in active:
            if finish < start:
                free[other.kind].append(slots[other])
            else:
                still.append((finish, other))
        active = still
        if free[register.kind]:
            slots[register] = free[register.kind].pop()
        else:
            slots[register] = used[register.kind]
            used[register.kind] += 1
        active.append((end, register))
    bases, at = {}, reserved_bytes
    for kind in (Kind.LANES64, Kind.LANES32, Kind.PRED):
        bases[kind] = at
        at += used[kind] * _SLOT_BYTES[kind]
    for register, slot in slots.items():
        offsets[register] = bases[register.kind] + slot * _SLOT_BYTES[register.kind]
    live_words = used[Kind.LANES32] + 2 * used[Kind.LANES64]
    return Slots(offsets, -(-at // 64) * 64, live_words)
