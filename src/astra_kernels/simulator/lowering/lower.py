"""A kernel of a module, from PTX to microcode."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from astra_kernels.simulator.errors import InvalidPtx, UnsupportedPtx
from astra_kernels.simulator.lowering import (
    arithmetic,
    carry,
    control,
    fragments,
    matrices,
    memory,
    system,
)
from astra_kernels.simulator.lowering.frame import Frame, lay_out
from astra_kernels.simulator.lowering.inline import inline_calls
from astra_kernels.simulator.lowering.merge import mark_merged_accesses
from astra_kernels.simulator.lowering.microcode import Kind, Microcode, MicroOp
from astra_kernels.simulator.lowering.repeats import mark_repeated_loads
from astra_kernels.simulator.lowering.translate import OperationTable, Translator, kind_of_type
from astra_kernels.simulator.lowering.validate import check_microcode
from astra_kernels.simulator.ptx.syntax import (
    Address,
    Body,
    Function,
    Instruction,
    Label,
    Module,
    Name,
    Operand,
    Vector,
)

FAMILIES: dict[str, Callable[[Translator, Instruction], None]] = {
    "mov": arithmetic.translate_mov,
    "cvta": arithmetic.translate_cvta,
    "setp": arithmetic.translate_setp,
    "selp": arithmetic.translate_selp,
    "set": arithmetic.translate_set,
    "slct": arithmetic.translate_slct,
    "createpolicy": arithmetic.translate_createpolicy,
    "ld": memory.translate_load,
    "ldu": memory.translate_load,
    "st": memory.translate_store,
    "atom": memory.translate_atomic,
    "red": memory.translate_atomic,
    "bra": control.translate_branch,
    "brx": control.translate_branch_table,
    "ret": control.translate_exit,
    "exit": control.translate_exit,
    "trap": control.translate_trap,
    "brkpt": control.translate_breakpoint,
    "call": system.translate_system_call,
    "mma": matrices.translate_multiply,
    "ldmatrix": matrices.translate_load_matrices,
    "stmatrix": matrices.translate_store_matrices,
    "movmatrix": matrices.translate_transpose,
    "wmma": fragments.translate_fragments,
    "bar": control.translate_barrier,
    "barrier": control.translate_barrier,
    "shfl": control.translate_shuffle,
    "vote": control.translate_vote,
    "match": control.translate_match,
    "redux": control.translate_reduction,
    "elect": control.translate_elect,
    "activemask": control.translate_active_mask,
    "membar": control.translate_fence,
    "fence": control.translate_fence,
    "griddepcontrol": control.translate_grid_control,
    "nanosleep": control.translate_nothing,
    "prefetch": control.translate_nothing,
    "prefetchu": control.translate_nothing,
    "applypriority": control.translate_nothing,
    "discard": memory.translate_discard,
    "pmevent": control.translate_nothing,
}


@dataclass(frozen=True)
class LoweredKernel:
    """A kernel as microcode, with the layout of its variables."""

    name: str
    microcode: Microcode
    frame: Frame
    max_threads: int | None


def lower_kernel(module: Module, name: str, table: OperationTable) -> LoweredKernel:
    """Translate a kernel.

    Raises:
        UnsupportedPtx: Something in it is not implemented; nothing of it may run then.
        InvalidPtx: The module has no such kernel.
    """
    function = module.functions.get(name)
    if function is None or not function.entry:
        raise InvalidPtx(f"no kernel named {name}")
    body = inline_calls(module, function)
    _refuse_directives(function)
    frame = lay_out(function, body, module, _names_in(body))
    placed = frozenset(v.name for v in module.variables.values() if v.space in ("global", "const"))
    translator = Translator(
        kernel=name,
        table=table,
        frame=frame,
        registers=_registers(function, body),
        branch_targets=body.branch_targets,
        module_variables=placed,
        unknown_addresses={
            v.name: reference.name
            for v in module.variables.values()
            for reference in v.references.values()
            if reference.name not in placed
        },
    )
    for statement in body.statements:
        if isinstance(statement, Label):
            control.place_label(translator, statement)
        elif isinstance(statement, Instruction):
            _translate(translator, statement)
    translator.operations.append(MicroOp("exit", counted=False))
    microcode = Microcode(translator.operations, translator.labels)
    for operation in microcode.operations:
        if operation.target is not None and operation.target not in microcode.labels:
            raise InvalidPtx(f"branch to {operation.target}, which is nowhere in {name}")
    check_microcode(name, microcode, table)
    mark_repeated_loads(microcode)
    mark_merged_accesses(microcode)
    return LoweredKernel(name, microcode, frame, _max_threads(function))


def _translate(translator: Translator, instruction: Instruction) -> None:
    translator.begin(instruction)
    family = instruction.parts[0]
    try:
        if instruction.opcode.startswith("cp.async."):
            memory.translate_copy_async(translator, instruction)
        elif carry.is_carry_chain(instruction):
            carry.translate_carry_chain(translator, instruction)
        elif family in FAMILIES:
            FAMILIES[family](translator, instruction)
        else:
            arithmetic.translate_elementwise(translator, instruction)
    except (KeyError, ValueError, IndexError) as error:
        reason = f"operands or modifiers of a form that is not implemented ({error})"
        raise UnsupportedPtx(
            translator.kernel, instruction.text, reason, instruction.line
        ) from error


def _registers(function: Function, body: Body) -> dict[str, Kind]:
    registers = {}
    for name, ptx_type in body.registers.items():
        try:
            registers[name] = kind_of_type(ptx_type)
        except KeyError as error:
            reason = f"registers of type .{ptx_type}"
            raise UnsupportedPtx(function.name, f".reg .{ptx_type} {name}", reason) from error
    return registers


def _refuse_directives(function: Function) -> None:
    for directive in (".reqnctapercluster", ".explicitcluster", ".maxclusterrank"):
        if directive in function.directives:
            raise UnsupportedPtx(function.name, directive, "clusters of blocks")


def _max_threads(function: Function) -> int | None:
    words = function.directives.replace(",", " ").split()
    if ".maxntid" not in words:
        return None
    total = 1
    for word in words[words.index(".maxntid") + 1 :]:
        if not word.isdigit():
            break
        total *= int(word)
    return total


def _names_in(body: Body) -> set[str]:
    names: set[str] = set()

    def visit(operand: Operand) -> None:
        match operand:
            case Name(name) | Address(Name(name)):
                names.add(name)
            case Vector(items):
                for item in items:
                    visit(item)

    for statement in body.statements:
        if isinstance(statement, Instruction):
            for operand in statement.operands:
                visit(operand)
    return names
