"""Where everything in an extracted problem is from: for programs, and for readers."""

from __future__ import annotations

import hashlib
import re

from astra_kernels.errors import UserError
from astra_kernels.extraction.closure import Closure
from astra_kernels.extraction.finding import Operator
from astra_kernels.extraction.flashinfer import WRITER, writer_line
from astra_kernels.extraction.opening import uncommitted
from astra_kernels.extraction.project import Project
from astra_kernels.records.provenance import OriginalFile, OriginalFunction, Provenance

_SPDX = re.compile(r"SPDX-License-Identifier:\s*([\w.+-]+(?:\s+(?:WITH|AND|OR)\s+[\w.+-]+)*)")
_LICENCES = (
    ("Apache-2.0", r"Apache License,?\s+Version 2\.0"),
    ("MIT", r"MIT License|Permission is hereby granted, free of charge"),
    ("BSD-3-Clause", r"Neither the name of"),
)
_HEAD = 2000


def provenance_of(
    project: Project, operator: Operator, closure: Closure, *, dirty: bool
) -> Provenance:
    """The record of every source that was copied; files that Astra wrote are in none.

    Args:
        project: where they are from.
        operator: what was taken out.
        closure: its sources.
        dirty: takes files that are not as the commit has them; no commit is named then.

    Raises:
        UserError: a file is not as the repository's commit has it, and `dirty` is not given.
    """
    origins = {n: o for n, o in closure.origins.items() if n not in closure.forwarding}
    changed = uncommitted(project, origins.values())
    if changed and not dirty:
        raise UserError(
            f"{project.root}: not as commit {project.release.commit[:12]} has them: {', '.join(changed)}; commit "
            "them, or take them as they are with --dirty (no commit is named then)"
        )
    files = []
    for name, origin in sorted(origins.items()):
        written = origin in project.generated
        source = WRITER if written else origin
        text = (project.root / source).read_bytes().decode(errors="replace")
        files.append(
            OriginalFile(
                path_in_problem=name,
                path_in_tree=project.in_repository(source),
                sha256=hashlib.sha256(text.encode()).hexdigest(),
                whole=text == closure.files[name],
            )
        )
    return Provenance(
        framework=project.release.name,
        version=project.release.version or None,
        commit=None if changed else project.release.commit or None,
        symbol=operator.symbol,
        entry=_entry(project, operator),
        files=tuple(files),
        licence=_licence(project, operator),
    )


def told(project: Project, provenance: Provenance, closure: Closure) -> str:
    """The same for readers, as Markdown."""
    entry = provenance.entry
    lines = [
        f"# {provenance.symbol}",
        "",
        f"From {project.release}: `{entry.name}`, `{entry.file}:{entry.line}`.",
        "",
        "| file here | file there | |",
        "|---|---|---|",
    ]
    for name in sorted(closure.files):
        original = provenance.original(name)
        if original is None:
            lines.append(f"| {name} | written by Astra | |")
        else:
            how = "whole" if original.whole else "what the operator needs"
            lines.append(f"| {name} | {original.path_in_tree} | {how} |")
    lines.append("")
    if closure.origins[closure.entry] in project.generated:
        lines.append("The entry file is written by the project's own Python code when it runs.")
    if provenance.commit is None and project.release.commit:
        lines.append("Some files are not as the repository's commit has them.")
    lines.append(f"Licence: {provenance.licence or 'as the files say'}; heads of files are kept.")
    return "\n".join([*lines, *closure.notes, ""])


def licence_texts(project: Project) -> dict[str, str]:
    """Licence files by name."""
    return {
        p.name: p.read_text(encoding="utf-8", errors="replace") for p in reversed(project.licences)
    }


def _entry(project: Project, operator: Operator) -> OriginalFunction:
    function = operator.function
    written = function.path in project.generated
    return OriginalFunction(
        name=operator.instance.written if operator.instance else function.qualified,
        file=project.in_repository(WRITER if written else function.path),
        line=writer_line(project.root) if written else function.line,
    )


def _licence(project: Project, operator: Operator) -> str | None:
    """What the file's head says, else the licence file."""
    head = project.read(operator.function.path)[:_HEAD]
    plain = [p for p in project.licences if p.stem.upper() in ("LICENSE", "LICENCE", "COPYING")]
    whole = [p.read_text(encoding="utf-8", errors="replace") for p in plain[:1]]
    for text in (head, *whole):
        if stated := _SPDX.search(text):
            return stated[1]
        for identifier, pattern in _LICENCES:
            if re.search(pattern, text):
                return identifier
    return None
