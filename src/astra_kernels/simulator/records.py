"""What goes into the simulator and what comes out of it, as plain records."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


@dataclass(frozen=True)
class SourceLine:
    """A line of a source file."""

    file: str
    line: int


class FaultKind(StrEnum):
    """Why a launch was stopped."""

    GLOBAL_BOUNDS = "global_bounds"
    GLOBAL_MISALIGNED = "global_misaligned"
    SHARED_BOUNDS = "shared_bounds"
    SHARED_MISALIGNED = "shared_misaligned"
    LOCAL_BOUNDS = "local_bounds"
    LOCAL_MISALIGNED = "local_misaligned"
    STEP_LIMIT = "step_limit"
    DEADLOCK = "deadlock"
    SYNC_MASK = "sync_mask"
    TRAP = "trap"
    ASSERTION = "assertion"
    BARRIER_OPERAND = "barrier_operand"
    EARLY_READ = "read_before_grid_wait"
    EARLY_WRITE = "write_before_grid_wait"
    SHARED_RACE = "shared_race"
    GLOBAL_RACE = "global_race"
    SHARED_UNWRITTEN = "uninitialised_shared_read"
    GLOBAL_UNWRITTEN = "uninitialised_global_read"
    LOCAL_UNWRITTEN = "uninitialised_local_read"
    COPY_UNDER_WAY = "async_copy_not_waited_for"
    ABSENT_LANE = "shuffle_from_absent_lane"
    DIVERGENT_BARRIER = "divergent_barrier"
    BARRIER_RACE = "barrier_race"


@dataclass(frozen=True)
class OtherSide:
    """The earlier one of two accesses that nothing orders, or of two barriers.

    Attributes:
        block: Index of the block, (x, y, z).
        thread: Index of the thread in its block, (x, y, z).
        line: The source line, when the library was built with `-lineinfo`.
        instruction: The PTX instruction.
    """

    block: tuple[int, int, int]
    thread: tuple[int, int, int]
    line: SourceLine | None
    instruction: str


@dataclass(frozen=True)
class Fault:
    """The first fault of a launch, in the block with the lowest index that has one.

    Where blocks take turns (cooperative launches, kernels that poll) it is the first one in time.

    Attributes:
        kind: What went wrong.
        kernel: The kernel's name as in the PTX.
        block: Index of the block, (x, y, z).
        thread: Index of the thread in its block, (x, y, z).
        address: Address of the access; an offset for shared and local memory.
        size: Bytes of the access, all elements of a vector together.
        line: The source line, when the library was built with `-lineinfo`.
        detail: What was accessed instead, in words.
        other: The other side of a race.
    """

    kind: FaultKind
    kernel: str
    block: tuple[int, int, int]
    thread: tuple[int, int, int]
    address: int
    size: int
    line: SourceLine | None
    detail: str
    other: OtherSide | None = None

    def __str__(self) -> str:
        where = f" at {self.line.file}:{self.line.line}" if self.line else ""
        return (
            f"{self.kind}: {self.detail} in {self.kernel}, block {self.block}, "
            f"thread {self.thread}{where}"
        )


@dataclass(frozen=True)
class LineCounters:
    """What the instructions of one source line did, over all blocks of a launch."""

    warp_instructions: int
    global_requests: int
    global_sectors: int
    shared_wavefronts: int


@dataclass(frozen=True)
class Counters:
    """What the hardware would have counted during a launch.

    Attributes:
        metrics: By Nsight Compute's name where it means the same; instruction counts are of PTX
            instructions, which ptxas merges, splits and schedules differently.
        instructions: Warp instructions by kind of work (`fp32`, `fp64`, `fp16`, `xu`, `alu`, `lsu`,
            `control`, `sync`).
        issue_slots: Warp instructions that machine code would issue for these, by estimate.
        xu_slots: Those of them for the special-function unit.
        load_rounds: How often a warp waits for global loads, on average (`lowering/rounds.py`).
        active_lanes: Mean number of lanes active in an instruction, 32 without divergence.
        dram_bytes_read: Distinct 32-byte sectors read, times 32: what must come from DRAM at least
            once when caches are cold.
        distinct_bytes_written: The same for writes. It is no figure of the profiler's: L2 keeps what is
            written until it needs the room, mostly until the kernel is over, and `dram__bytes_write.sum` has
            only what it let go of before. Both are scaled up in a sampled launch, where data that all blocks
            share is then counted too often.
        barriers: Barriers of a block completed.
        lines: The same work by source line.
    """

    metrics: dict[str, int]
    instructions: dict[str, int]
    issue_slots: float
    xu_slots: float
    load_rounds: float
    active_lanes: float
    dram_bytes_read: int
    distinct_bytes_written: int
    barriers: int
    lines: dict[SourceLine, LineCounters]


@dataclass(frozen=True)
class Launch:
    """One kernel launch.

    Attributes:
        kernel: The kernel's name as in the PTX (mangled).
        grid: Blocks, (x, y, z).
        block: Threads of a block, (x, y, z).
        static_shared_bytes: Shared memory that the kernel declares.
        dynamic_shared_bytes: Shared memory that the launch asked for.
        executed_blocks: How many blocks ran. Fewer than the grid's means that the launch was
            sampled: counters are scaled up and the outputs of other blocks were not written.
        counters: None when not counting.
        fault: None when the launch ran to its end.
        wall_seconds: How long the simulation took.
        unchecked: Whether the checks ran out of memory, so that some accesses were not looked at.
    """

    kernel: str
    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    static_shared_bytes: int
    dynamic_shared_bytes: int
    executed_blocks: int
    counters: Counters | None
    fault: Fault | None
    wall_seconds: float
    unchecked: bool = False

    @property
    def blocks(self) -> int:
        """Blocks in the grid."""
        return self.grid[0] * self.grid[1] * self.grid[2]

    @property
    def threads_per_block(self) -> int:
        """Threads in a block."""
        return self.block[0] * self.block[1] * self.block[2]

    @property
    def sampled(self) -> bool:
        """Whether only some of the blocks ran."""
        return self.executed_blocks < self.blocks


@dataclass(frozen=True)
class SimulatorOptions:
    """How to simulate.

    Attributes:
        threads: Host threads; None for as many as there are processors.
        seed: Chooses the blocks of a sample, and what uninitialised memory holds.
        block_sample: Run at most so many blocks of a launch, 2 at least, the first and the last
            always among them, and those that they wait for; None runs all, as does a cooperative launch.
        step_limit: Warp instructions after which a block is taken to loop for ever.
        counters: Whether to count. Running without is faster.
        checks: Whether to look for races, reads of what nobody wrote, and misuse of asynchronous copies, shuffles
            and barriers. Runs on one host thread.
        order: In which order warps get their turns, and blocks that do not wait for each other: 0 as they are
            numbered, else by chance from this number.
    """

    threads: int | None = None
    seed: int = 0
    block_sample: int | None = None
    step_limit: int = 20_000_000
    counters: bool = True
    checks: bool = False
    order: int = 0
