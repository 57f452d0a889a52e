"""The one new file of a patch: where it is from, the candidate's definitions, and the guard."""

from __future__ import annotations

from dataclasses import dataclass

from astra_kernels.exporters.guard import COMPUTE_CAPABILITY, CURRENT_DEVICE, Guard
from astra_kernels.exporters.namespaced import Namespaced


@dataclass(frozen=True)
class Origin:
    """What a reader of the new file is told about it."""

    lines: tuple[str, ...]


def new_file(
    parts: Namespaced, guard: Guard, origin: Origin, namespace: str, entry_namespace: str
) -> str:
    """The text of the new file.

    Args:
        parts: the candidate's sources.
        guard: when they are called.
        origin: where they are from.
        namespace: in which they are.
        entry_namespace: the namespace of the host function inside of it; "" for none.
    """
    lines: list[str] = []
    if parts.licence:
        lines += [parts.licence, ""]
    lines += [f"// {line}".rstrip() for line in origin.lines]
    lines += ["", "#pragma once", ""]
    own = ("#include <cuda_runtime.h>", "#include <atomic>", "#include <cstdint>")
    lines += dict.fromkeys((*own, *parts.includes))
    lines += [""]
    for name in parts.macros:
        lines += [f'#pragma push_macro("{name}")', f"#undef {name}"]
    lines += [f"namespace {name} {{}}" for name in parts.nested]
    lines += ["", f"namespace {namespace} {{", ""]
    for name in parts.nested:
        lines += [f"namespace {name} {{", f"using namespace ::{name};", "}"]
    for path, text in parts.texts:
        lines += ["", f"// {path}", "", text.rstrip()]
    lines += ["", COMPUTE_CAPABILITY]
    if "current_device()" in guard.device:
        lines += [CURRENT_DEVICE]
    decided = guard.text().rstrip()
    if entry_namespace:
        decided = (
            f"namespace {entry_namespace} {{\n\n{decided}\n\n}}  // namespace {entry_namespace}"
        )
    lines += [decided, "", f"}}  // namespace {namespace}"]
    lines += [f'#pragma pop_macro("{name}")' for name in reversed(parts.macros)]
    text = "\n".join(lines) + "\n"
    while "\n\n\n" in text:
        text = text.replace("\n\n\n", "\n\n")
    return text
