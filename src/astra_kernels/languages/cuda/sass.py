"""The static instruction mix of each kernel, from its machine code (SASS).

nvdisasm reads the cubins, which are taken out of the library here: cuobjdump would do that too, but
it calls nvdisasm in turn. Opcodes are listed in the CUDA Binary Utilities guide, "Instruction Set
Reference"; which pipe executes them, in the Nsight Compute guide, "Metrics Decoder, Pipelines".
"""

import re
import tempfile
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from astra_kernels.errors import MachineFault
from astra_kernels.languages.cuda.elf import ElfError, embedded_cubins
from astra_kernels.languages.cuda.outcome import Built
from astra_kernels.languages.cuda.toolchain import Toolchain
from astra_kernels.languages.sandbox.policy import SandboxPolicy
from astra_kernels.languages.sandbox.run import run_sandboxed

DISASSEMBLY_DEADLINE_S = 60.0

_CLASSES = {
    "fp32": "FADD FADD32I FMUL FMUL32I FFMA FFMA32I FADD2 FMUL2 FFMA2 FMNMX FMNMX3 FSETP FSET FSEL FCHK",
    "fp16": "HADD2 HADD2_32I HMUL2 HMUL2_32I HFMA2 HFMA2_32I HMNMX2 HSETP2 HSET2",
    "fp64": "DADD DMUL DFMA DSETP DMNMX",
    "mufu": "MUFU",
    "tensor": "HMMA IMMA DMMA QMMA BMMA OMMA HGMMA QGMMA IGMMA BGMMA UTCHMMA UTCQMMA UTCIMMA UTCOMMA",
    "conversion": "F2F F2I F2FP F2IP I2F I2FP I2I I2IP FRND",
    "integer": "IADD IADD3 IADD32I IMAD IMUL IMNMX VIMNMX VIMNMX3 VIADD VIADDMNMX IABS ISETP ISET ISCADD "
    "LEA LOP LOP3 LOP32I PLOP3 SHF SHL SHR SEL PRMT POPC FLO BREV BMSK SGXT IDP IDP4A ISAD VABSDIFF LEPC",
    "move": "MOV MOV32I S2R CS2R S2UR R2UR R2P P2R MOVM",
    "constant_load": "LDC LDCU ULDC",
    "global_load": "LDG LD",
    "global_store": "STG ST",
    "atomic": "ATOM ATOMG ATOMS RED REDG REDAS UREDGR",
    "async_copy": "LDGSTS UBLKCP UBLKPF UTMALDG UTMASTG UTMAPF UTMAREDG UBLKRED",
    "shared_load": "LDS LDSM",
    "shared_store": "STS STSM",
    "local": "LDL STL",
    "shuffle": "SHFL VOTE VOTEU MATCH REDUX CREDUX ELECT",
    "barrier": "BAR B2R DEPBAR LDGDEPBAR MEMBAR ERRBAR FENCE SYNCS WARPSYNC ARRIVES WARPGROUP UCGABAR_ARV "
    "UCGABAR_WAIT ACQBULK PREEXIT CCTL ENDCOLLECTIVE R2B",
    "branch": "BRA BRX JMP JMX CALL RET EXIT BSSY BSYNC BREAK BMOV KILL NANOSLEEP YIELD WARPEXIT",
    "texture": "TEX TLD TLD4 TMML TXD TXQ SULD SUST SURED SUATOM",
}
_CLASS_OF = {opcode: name for name, opcodes in _CLASSES.items() for opcode in opcodes.split()}

_FUNCTION = re.compile(r"\s*\.section\s+\.text\.(?P<name>[^,\s]+)")
_INSTRUCTION = re.compile(
    r"\s*/\*[0-9a-f]{4,}\*/\s+(?P<predicate>@!?U?P[T\d]\s+)?(?P<opcode>[A-Z][\w.]*)"
)
_WIDTH = re.compile(r"\.(?:[US]?(8|16)|(64|128|256))(?=\.|$)")


@dataclass(frozen=True, slots=True)
class InstructionMix:
    """How often each instruction stands in a kernel's code; not how often it is executed.

    Attributes:
        kernel: the mangled name.
        opcodes: count by opcode with its modifiers, such as "LDG.E.128".
        classes: count by class: fp32, fp16, fp64, mufu, tensor, conversion, integer, uniform, move,
            constant_load, global_load, global_store, atomic, async_copy, shared_load, shared_store,
            local, shuffle, barrier, branch, texture, other.
        global_load_bits: count of global loads by the bits that one thread loads.
        global_store_bits: likewise for stores.
        total: all instructions, without padding.
    """

    kernel: str
    opcodes: Mapping[str, int]
    classes: Mapping[str, int]
    global_load_bits: Mapping[int, int]
    global_store_bits: Mapping[int, int]
    total: int


@dataclass(frozen=True, slots=True)
class NotEstablished:
    """The instruction mix could not be had; `reason` says why."""

    reason: str


def instruction_mix(
    built: Built, toolchain: Toolchain
) -> tuple[InstructionMix, ...] | NotEstablished:
    """Counts the instructions of every kernel of a library.

    Raises:
        MachineFault: the scratch directory cannot be written, or nvdisasm cannot be started.
    """
    if toolchain.nvdisasm is None:
        return NotEstablished("not established: nvdisasm is not installed")
    try:
        cubins = list(embedded_cubins(built.library.read_bytes()))
    except ElfError as error:
        return NotEstablished(f"not established: {error}")
    except OSError as error:
        raise MachineFault(f"{built.library} cannot be read: {error}") from error
    mixes: list[InstructionMix] = []
    for cubin in cubins:
        listing = _disassemble(cubin, toolchain.nvdisasm)
        if isinstance(listing, NotEstablished):
            return listing
        mixes += parse_listing(listing)
    return tuple(mixes)


def listings(built: Built, toolchain: Toolchain, *options: str) -> list[str]:
    """What `nvdisasm -c` prints of every cubin of a library; none where it is not installed or fails.

    Raises:
        MachineFault: the scratch directory cannot be written, or nvdisasm cannot be started.
    """
    if toolchain.nvdisasm is None:
        return []
    try:
        cubins = list(embedded_cubins(built.library.read_bytes()))
    except ElfError:
        return []
    found = (_disassemble(cubin, toolchain.nvdisasm, *options) for cubin in cubins)
    return [listing for listing in found if isinstance(listing, str)]


def parse_listing(listing: str) -> list[InstructionMix]:
    """Reads what `nvdisasm -c` prints."""
    counts: dict[str, Counter[str]] = {}
    current: Counter[str] = Counter()
    for line in listing.splitlines():
        if section := _FUNCTION.match(line):
            current = counts.setdefault(section["name"], Counter())
        elif instruction := _INSTRUCTION.match(line):
            never = (instruction["predicate"] or "").strip() == "@!PT"
            if not never and instruction["opcode"] != "NOP":
                current[instruction["opcode"]] += 1
    return [_mix(kernel, opcodes) for kernel, opcodes in counts.items()]


def instruction_class(opcode: str) -> str:
    """The class of an opcode with or without modifiers; "uniform" for the uniform datapath."""
    base = opcode.partition(".")[0]
    known = _CLASS_OF.get(base)
    if known is None and base.startswith("U"):
        return "uniform"
    return known or "other"


def _mix(kernel: str, opcodes: Counter[str]) -> InstructionMix:
    classes: Counter[str] = Counter()
    bits: dict[str, Counter[int]] = {"global_load": Counter(), "global_store": Counter()}
    for opcode, count in opcodes.items():
        name = instruction_class(opcode)
        classes[name] += count
        if name in bits:
            width = _WIDTH.search(opcode)
            bits[name][int(width[1] or width[2]) if width else 32] += count
    return InstructionMix(
        kernel=kernel,
        opcodes=dict(sorted(opcodes.items())),
        classes=dict(sorted(classes.items())),
        global_load_bits=dict(sorted(bits["global_load"].items())),
        global_store_bits=dict(sorted(bits["global_store"].items())),
        total=opcodes.total(),
    )


def _disassemble(cubin: bytes, nvdisasm: Path, *options: str) -> str | NotEstablished:
    with tempfile.TemporaryDirectory() as directory:
        scratch = Path(directory)
        (scratch / "kernel.cubin").write_bytes(cubin)
        done = run_sandboxed(
            ["/bin/sh", "-c", '"$0" -c "$@" kernel.cubin > listing', str(nvdisasm), *options],
            policy=SandboxPolicy(
                scratch=scratch,
                deadline_s=DISASSEMBLY_DEADLINE_S,
                readable=(nvdisasm.resolve().parent,),
            ),
        )
        if done.returncode != 0:
            said = "took too long" if done.timed_out else done.stderr.strip()[:200]
            return NotEstablished(f"not established: nvdisasm: {said}")
        return (scratch / "listing").read_text(errors="replace")
