"""Instances of templates as operators: `ScaleKernel<half>::run`, as SGLang's jit kernels are exported by their Python code."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from astra_kernels.extraction.project import Project
from astra_kernels.extraction.syntax import Function, functions, members

_INSTANCE = re.compile(
    r"(?P<scope>(?:\w+::)*)(?P<name>\w+)\s*<(?P<arguments>.+)>\s*(?:::(?P<member>\w+))?"
)
_ELEMENTS = {
    "half": "float16", "__half": "float16", "fp16_t": "float16", "nv_half": "float16",
    "bf16_t": "bfloat16", "__nv_bfloat16": "bfloat16", "nv_bfloat16": "bfloat16",
    "float": "float32", "fp32_t": "float32",
}  # fmt: skip


@dataclass(frozen=True)
class Instance:
    """A function template, or a static member of a class template, with its arguments."""

    scope: str
    name: str
    """Of the template, which is a definition of its file."""
    arguments: str
    member: str

    def called(self, namespace: str) -> str:
        """How C++ calls it, in parentheses, since macros split at commas."""
        scope = f"{namespace}::" if namespace else ""
        member = f"::{self.member}" if self.member else ""
        return f"({scope}{self.name}<{self.arguments}>{member})"

    @property
    def written(self) -> str:
        """As a user writes it."""
        return f"{self.scope}{self.name}<{self.arguments}>" + (
            f"::{self.member}" if self.member else ""
        )

    @property
    def element(self) -> str:
        """The element type that the arguments name; "" where they name none."""
        words = re.findall(r"\w+", self.arguments)
        return next((_ELEMENTS[word] for word in words if word in _ELEMENTS), "")

    def definitions(self, project: Project) -> Iterator[Function]:
        """Where it is defined."""
        for path, text in project.units.items():
            if self.name not in text:
                continue
            if self.member:
                found = (
                    f
                    for owner, f in members(text, path)
                    if owner == self.name and f.name == self.member
                )
            else:
                found = (f for f in functions(text, path) if f.name == self.name and f.template)
            yield from (
                f
                for f in found
                if f"::{f.namespace}".endswith(f"::{self.scope}".removesuffix("::"))
            )

    def exported(self, project: Project) -> str:
        """The name that the project's Python code gives it, as `("scale", f"ScaleKernel<{args}>::run")`; else its own."""
        pattern = re.compile(rf"""\(\s*["'](\w+)["']\s*,\s*f?["'](?:\w+::)*{self.name}<""")
        for path in sorted(project.root.rglob("*.py")):
            if found := pattern.search(path.read_text(encoding="utf-8", errors="replace")):
                return found[1]
        return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", self.name).lower()


def instance_of(symbol: str) -> Instance | None:
    """The instance that a symbol names; None for any other symbol."""
    found = _INSTANCE.fullmatch(symbol.strip())
    if found is None:
        return None
    return Instance(
        found["scope"], found["name"], found["arguments"].strip(), found["member"] or ""
    )
