"""The reference.py of a problem whose oracle is the original kernel: what to fill in to give it a reference of its own."""

from __future__ import annotations

from astra_kernels.extraction.draft import Draft


def stub(draft: Draft) -> str:
    """Text that says exactly what is to be written."""
    listed = "\n".join(f"    {n}: {_kind(s)}" for n, s in draft.inputs.items())
    returned = "\n".join(f"    {n}: {_kind(s)}" for n, s in draft.outputs.items())
    return (
        '"""No reference yet: outputs are compared with those of the original kernel ("oracle": "baseline").\n\n'
        "To give a reference, write `run` below, and take the line `oracle` out of definition.json. It gets\n\n"
        f"{listed}\n\nand returns new arrays, in this order,\n\n{returned}\n\n"
        'It never changes its inputs. `astra verify` then compares the kernel with it.\n"""\n\n\n'
        f"def run({', '.join(draft.inputs)}):\n    raise NotImplementedError\n"
    )


def _kind(spec: dict[str, object]) -> str:
    shape = spec["shape"]
    if not isinstance(shape, list):
        return f"a number, {spec['dtype']}"
    return f"[{', '.join(map(str, shape))}] of {spec['dtype']}"
