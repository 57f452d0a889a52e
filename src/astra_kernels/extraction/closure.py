"""The headers that one source really includes: found by their text, then confirmed by the preprocessor."""

from __future__ import annotations

import os
import posixpath
import re
import subprocess
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from astra_kernels.errors import UserError
from astra_kernels.extraction.finding import Binding
from astra_kernels.extraction.project import Project
from astra_kernels.extraction.pruning import pruned
from astra_kernels.extraction.syntax import declared, without_comments, words
from astra_kernels.languages.bindings.torch import STAND_IN
from astra_kernels.languages.bindings.tvm_ffi import tvm_ffi_directory
from astra_kernels.languages.cuda.toolchain import Toolchain

_INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*[<"]([^">]+)[">]', re.MULTILINE)
_LACKING = re.compile(r"^(.*?):(\d+):\d+: fatal error: (.*?): No such file", re.MULTILINE)
_LIBRARIES = {
    r"cublas\w*\.h": ("cuBLAS", r"\bcublas(?:Lt)?[A-Z]\w*"),
    r"(?:cutlass|cute)/.*": ("CUTLASS", r"\b(?:cutlass|cute)\s*::"),
    r"curand\w*\.h": ("cuRAND", r"\bcurand\w*"),
    r"cudnn\w*\.h": ("cuDNN", r"\bcudnn[A-Z]\w*"),
    r"cusparse\w*\.h": ("cuSPARSE", r"\bcusparse\w*"),
    r"nccl\.h": ("NCCL", r"\bnccl[A-Z]\w*"),
    r"nvshmem\w*\.h": ("NVSHMEM", r"\bnvshmem\w*"),
}
_EMPTY = "// Empty on purpose: {library} is included by {includer}, but nothing here uses it.\n"
_SYSTEM = (Path("/usr/include"), Path("/usr/include/x86_64-linux-gnu"))
_MOST_MISSING = 8
_TIMEOUT_S = 180


@dataclass
class Closure:
    """Sources by the path they get in the problem, and where each is from."""

    entry: str
    files: dict[str, str]
    origins: dict[str, str]
    notes: list[str] = field(default_factory=list)
    forwarding: set[str] = field(default_factory=set)
    """Files that only include another one, which is included under two names."""

    def compiled(self) -> Closure:
        """With an entry file that a compiler takes for a source: what projects compile by including it is called `.cu`."""
        if not self.entry.endswith(".cuh"):
            return self
        unit = self.entry.removesuffix("h")
        files = {unit if name == self.entry else name: text for name, text in self.files.items()}
        origins = {unit if name == self.entry else name: p for name, p in self.origins.items()}
        return replace(self, entry=unit, files=files, origins=origins)


@dataclass(frozen=True)
class Preprocessor:
    """With what the includes are confirmed."""

    toolchain: Toolchain
    flags: tuple[str, ...]
    binding: Binding
    brought: tuple[Path, ...] = ()
    """Include directories of newer CUDA libraries that the project brings along; what is read of them is copied."""
    newer: tuple[str, ...] = ()
    """Headers that are to be taken from there if they are included, as the compiler's lack something."""

    @property
    def system(self) -> tuple[Path, ...]:
        """Directories of headers that are not copied: the compiler's and the framework's."""
        frameworks: tuple[Path, ...] = ()
        if self.binding == "tvm-ffi":
            frameworks = (tvm_ffi_directory() / "include",)
        if self.binding == "torch":
            frameworks = (STAND_IN,)
        return (*frameworks, *self.toolchain.include_dirs)

    def provides(self, name: str) -> bool:
        """Whether a header is found in one of them, or is the system's."""
        return any((place / name).is_file() for place in (*self.system, *_SYSTEM))


def collect(
    project: Project,
    path: str,
    text: str,
    preprocessor: Preprocessor,
    *,
    every_include: bool = False,
) -> Closure:
    """The source at `path`, whose text may have been cut down, with every project header that it needs.

    Args:
        project: where it is from.
        path: its path there.
        text: its text.
        preprocessor: what confirms the includes.
        every_include: keeps headers whose names the source does not mention.

    Raises:
        UserError: an include cannot be found, or a library is needed that problems cannot have.
        SetupError: the framework's package is not installed.
    """
    if not every_include:
        text = _needed_includes(project, path, text, preprocessor)
    try:
        closure = _textual(project, path, text, preprocessor, path.rpartition("/")[2])
    except _Outside:
        closure = _textual(project, path, text, preprocessor, path)
    _confirm(closure, preprocessor, project.root)
    return closure


class _Outside(Exception):
    """An include leaves the directory of the sources."""


def _textual(
    project: Project, path: str, text: str, preprocessor: Preprocessor, entry: str
) -> Closure:
    """Follows every `#include`, whatever `#if` it stands under."""
    closure = Closure(entry, {entry: text}, {entry: path})
    placed = {path: entry}
    waiting = [(path, entry, text)]
    while waiting:
        source, place, content = waiting.pop()
        for name in _INCLUDE.findall(without_comments(content)):
            found = _resolved(project, source, place, name, preprocessor)
            if found is None:
                continue
            origin, target = found
            if target.startswith("../"):
                raise _Outside
            if origin in placed and placed[origin] != target:
                closure.files.setdefault(target, f'#include "{placed[origin]}"\n')
                closure.origins.setdefault(target, origin)
                closure.forwarding.add(target)
            elif closure.origins.get(target, origin) != origin:
                raise UserError(
                    f'"{name}" means {closure.origins[target]} in one file and {origin} in {source}'
                )
            elif origin not in placed:
                placed[origin] = target
                closure.files[target], closure.origins[target] = project.read(origin), origin
                waiting.append((origin, target, closure.files[target]))
    return closure


def _resolved(
    project: Project, source: str, place: str, name: str, preprocessor: Preprocessor
) -> tuple[str, str] | None:
    """The project's file that an include means, and its path in the problem; None for others' headers."""
    beside = posixpath.normpath(posixpath.join(posixpath.dirname(source), name))
    if beside in project.by_name.get(posixpath.basename(name), ()):
        return beside, posixpath.normpath(posixpath.join(posixpath.dirname(place), name))
    if preprocessor.provides(name):
        return None
    tail = name.lstrip("./")
    candidates = [
        p
        for p in project.by_name.get(posixpath.basename(name), ())
        if p == tail or p.endswith(f"/{tail}")
    ]
    if not candidates:
        return None
    nearest = max(candidates, key=lambda p: (len(os.path.commonprefix([p, source])), -len(p)))
    return nearest, tail


def _needed_includes(project: Project, path: str, text: str, preprocessor: Preprocessor) -> str:
    """The text without project headers that bring no name which it mentions.

    A header that brings none itself, but includes one that does, gives way to what it includes. What a header
    that is left out includes of others, such as the framework's, is included in its place.
    """
    mentioned = words("\n".join(x for x in text.splitlines() if "#include" not in x))
    lines: list[str] = []
    included: set[str] = set(_INCLUDE.findall(text))
    followed: set[str] = set()

    def needed(name: str, source: str) -> list[str]:
        found = _resolved(project, source, "", name, preprocessor)
        if found is None or found[0] in followed:
            return []
        followed.add(found[0])
        header = project.read(found[0])
        if declared(header) & mentioned:
            return [f'"{name}"']
        base = posixpath.dirname(name)
        nested: list[str] = []
        others: list[str] = []
        useful = False
        for inner in _INCLUDE.findall(without_comments(header)):
            beside = posixpath.normpath(posixpath.join(base, inner))
            whole = _resolved(project, source, "", beside, preprocessor)
            spelled = beside if whole is not None else inner
            if _resolved(project, source, "", spelled, preprocessor) is not None:
                deeper = needed(spelled, source)
                useful |= any(one.startswith('"') for one in deeper)
                others += [one for one in deeper if one.startswith("<")]
                nested.append(f'"{spelled}"')
            elif inner not in included and ("." not in inner or preprocessor.provides(inner)):
                included.add(inner)
                others.append(f"<{inner}>")
        # All of the nested ones: one may need what another brings.
        return [*others, *nested] if useful else others

    for line in text.splitlines():
        names = _INCLUDE.findall(line)
        if not names or _resolved(project, path, "", names[0], preprocessor) is None:
            lines.append(line)
        else:
            spelled = needed(names[0], path)
            lines += [line if one == f'"{names[0]}"' else f"#include {one}" for one in spelled]
    return "\n".join(lines) + "\n"


def _confirm(closure: Closure, preprocessor: Preprocessor, project: Path) -> None:
    """Keeps the files that the preprocessor read, and says which header is missing."""
    brought = _wants(closure, preprocessor.newer)
    for _ in range(_MOST_MISSING):
        with tempfile.TemporaryDirectory(prefix="astra-extract-") as directory:
            root = Path(directory)
            for name, text in closure.files.items():
                (root / name).parent.mkdir(parents=True, exist_ok=True)
                (root / name).write_text(text)
            done = subprocess.run(
                _command(closure, preprocessor, brought),
                cwd=root,
                capture_output=True,
                text=True,
                errors="replace",
                timeout=_TIMEOUT_S,
                check=False,
            )
            if done.returncode == 0:
                _keep(closure, done.stdout, root)
                _add_brought(closure, done.stdout, preprocessor, project)
                return
        lacking = _LACKING.search(done.stderr)
        if lacking is None:
            said = next((x for x in done.stderr.splitlines() if "error" in x), done.stderr[-300:])
            raise UserError(f"{closure.entry} cannot be preprocessed: {said.strip()}")
        if not brought and any((p / lacking[3]).is_file() for p in preprocessor.brought):
            brought = True
        else:
            _missing(closure, lacking[3], posixpath.normpath(lacking[1]))
    raise UserError(f"{closure.entry}: too many headers are missing")


def _wants(closure: Closure, names: tuple[str, ...]) -> bool:
    """Whether a file includes one of the headers."""
    texts = map(without_comments, closure.files.values())
    return any(name in names for text in texts for name in _INCLUDE.findall(text))


def _command(closure: Closure, preprocessor: Preprocessor, brought: bool) -> Sequence[str]:
    system = [word for place in preprocessor.system[:1] for word in ("-isystem", str(place))]
    if brought:
        system += [word for place in preprocessor.brought for word in ("-I", str(place))]
    given = [f for f in preprocessor.flags if f.startswith("-D")]
    nvcc = str(preprocessor.toolchain.nvcc)
    return [nvcc, "-M", "-std=c++17", *given, "-I.", *system, "-x", "cu", closure.entry]


def _keep(closure: Closure, rule: str, root: Path) -> None:
    """Leaves out what was not read; forwarding headers and emptied ones are files like others."""
    read: set[str] = set()
    for word in rule.partition(":")[2].replace("\\\n", " ").split():
        path = Path(word) if word.startswith("/") else root / word
        if path.resolve().is_relative_to(root.resolve()):
            read.add(path.resolve().relative_to(root.resolve()).as_posix())
    device = {
        n for t in closure.files.values() if "__CUDA_ARCH__" in t for n in _INCLUDE.findall(t)
    }
    for name in list(closure.files):
        if name not in read and name != closure.entry and name not in device:
            del closure.files[name]
            closure.origins.pop(name, None)


def _add_brought(closure: Closure, rule: str, preprocessor: Preprocessor, root: Path) -> None:
    """Copies what was read of the libraries that the project brings along."""
    for word in rule.partition(":")[2].replace("\\\n", " ").split():
        for place in preprocessor.brought:
            path = Path(os.path.normpath(word))
            if path.is_absolute() and path.is_relative_to(place):
                name = path.relative_to(place).as_posix()
                closure.files[name] = path.read_text(encoding="utf-8", errors="replace")
                closure.origins[name] = path.relative_to(root).as_posix()


def _missing(closure: Closure, name: str, includer: str) -> None:
    """Puts an empty header in place of a library's that nobody uses.

    Raises:
        UserError: it is used, or it is nobody's.
    """
    origin = closure.origins.get(includer, includer)
    for header, (library, use) in _LIBRARIES.items():
        if not re.fullmatch(header, name):
            continue
        used = next((f for f, t in closure.files.items() if _uses(t, use)), None)
        if used is not None and used != closure.entry:
            others = (t for f, t in closure.files.items() if f != used)
            closure.files[used] = pruned(
                closure.files[used], frozenset().union(*map(words, others))
            )
            closure.notes.append(f"{used} is cut down to what is needed, as {library} is not here")
            used = next((f for f, t in closure.files.items() if _uses(t, use)), None)
        if used is not None:
            raise UserError(
                f"{closure.origins.get(used, used)} uses {library}, whose header {name} is not in the "
                f"CUDA toolkit here ({origin} includes it): kernels that need {library} cannot be taken out"
            )
        closure.files[name] = _EMPTY.format(library=library, includer=origin)
        closure.notes.append(
            f"{name} ({library}) is included by {origin} and not used: it is empty here"
        )
        return
    raise UserError(f'"{name}" cannot be found; {origin} includes it')


def _uses(text: str, use: str) -> bool:
    lines = (x for x in without_comments(text).splitlines() if "#include" not in x)
    return re.search(use, "\n".join(lines)) is not None
