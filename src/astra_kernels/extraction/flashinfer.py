"""What only FlashInfer does: sources that its Python code writes, and flags that its loader adds."""

from __future__ import annotations

import ast
from pathlib import Path

import jinja2

from astra_kernels.languages.cuda.toolchain import Toolchain

FLAGS = (
    "-use_fast_math",
    "--expt-relaxed-constexpr",
    "-DFLASHINFER_ENABLE_F16",
    "-DFLASHINFER_ENABLE_BF16",
    "-DFLASHINFER_ENABLE_FP8_E4M3",
    "-DFLASHINFER_ENABLE_FP8_E5M2",
)
"""As its loader gives them to every module."""
_NEWER = "cuda/__cmath/fast_modulo_division.h"
"""A header that FlashInfer needs, and that CUDA 13.0 does not have."""
NEWER_USERS = ("cuda/cmath",)
"""Headers that include it in CUDA 13.1."""
_TEMPLATE = "activation_templ"
WRITER = "jit/activation.py"
"""The Python file that writes sources, in the package."""
MOVED = (
    ("data/csrc/", "csrc/"),
    ("data/include/", "include/"),
    ("data/cccl/", "3rdparty/cccl/"),
    ("data/", "3rdparty/"),
)
"""Where the package's files are in FlashInfer's repository."""


def generated_sources(package: Path) -> dict[str, str]:
    """The activations, by path: FlashInfer fills a template when they are first called."""
    path = package / WRITER
    if not path.is_file():
        return {}
    texts = {
        node.targets[0].id: node.value.value
        for node in ast.parse(path.read_text(encoding="utf-8")).body
        if isinstance(node, ast.Assign)
        and isinstance(node.targets[0], ast.Name)
        and isinstance(node.value, ast.Constant)
        and isinstance(node.value.value, str)
    }
    functions = {
        "silu": texts.get("silu_def_cu_str"),
        "gelu": texts.get("gelu_def_cu_str"),
        "gelu_tanh": texts.get("gelu_def_tanh_cu_str"),
    }
    template = texts.get(_TEMPLATE)
    if template is None:
        return {}
    return {
        f"data/csrc/{name}_and_mul.cu": jinja2.Template(template).render(
            act_func_name=name, act_func_def=text
        )
        for name, text in functions.items()
        if text is not None
    }


def writer_line(package: Path) -> int:
    """The line of the template that the activations are made of."""
    lines = (package / WRITER).read_text(encoding="utf-8").splitlines()
    return next(i for i, line in enumerate(lines, start=1) if line.startswith(_TEMPLATE))


def newer_libraries(package: Path, toolchain: Toolchain) -> tuple[Path, ...]:
    """Include directories of the CUDA C++ core libraries that it brings, where the compiler's are older."""
    places = tuple(
        p
        for p in (package / "data/cccl" / part for part in ("cub", "thrust", "libcudacxx/include"))
        if p.is_dir()
    )
    if not places:
        return ()
    own = (place for place in toolchain.include_dirs for place in (place, place / "cccl"))
    older = not any((place / _NEWER).is_file() for place in own)
    return places if older else ()
