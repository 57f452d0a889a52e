"""A NumPy reference behind torch tensors, which is what FlashInfer-Bench's references take and return."""

from __future__ import annotations

import ast

_AROUND = """

# FlashInfer-Bench calls references with torch tensors; the one above is written for NumPy arrays.
_on_arrays = run
_WIDE = {{"bfloat16": "int16", "float8_e4m3fn": "uint8", "float8_e5m2": "uint8"}}
_OUTPUTS = {outputs}


def _array(value):
    import ml_dtypes
    import torch

    if not isinstance(value, torch.Tensor):
        return value
    name = str(value.dtype).removeprefix("torch.")
    plain = value.detach().cpu().contiguous()
    if name in _WIDE:
        return plain.view(getattr(torch, _WIDE[name])).numpy().view(getattr(ml_dtypes, name))
    return plain.numpy()


def _tensor(values, name, device):
    import numpy
    import torch

    values = numpy.ascontiguousarray(values)
    if name in _WIDE:
        raw = torch.from_numpy(values.view(_WIDE[name])).view(getattr(torch, name))
        return raw.to(device)
    return torch.from_numpy(values).to(device)


def run(*given):
    device = next((x.device for x in given if hasattr(x, "device")), "cpu")
    found = _on_arrays(*(_array(x) for x in given))
    found = tuple(found.values()) if isinstance(found, dict) else found
    found = found if isinstance(found, (tuple, list)) else (found,)
    made = tuple(_tensor(x, name, device) for x, name in zip(found, _OUTPUTS, strict=True))
    return made if len(made) > 1 else made[0]
"""


def reference_on_tensors(text: str, outputs: tuple[str, ...]) -> str:
    """The reference for torch tensors: as it is if it imports torch, else with a conversion around it.

    Args:
        text: its source, which defines `run`.
        outputs: element types of the outputs in order.
    """
    if _imports_torch(text):
        return text
    return text.rstrip() + "\n" + _AROUND.format(outputs=outputs)


def _imports_torch(text: str) -> bool:
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            names = [node.module or ""]
        else:
            continue
        if any(name.partition(".")[0] == "torch" for name in names):
            return True
    return False
