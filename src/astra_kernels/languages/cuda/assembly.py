"""Finding inline assembly in tokens, and what its text really is once macros are replaced."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from astra_kernels.languages.cuda.tokens import Token

_ASM = frozenset(("asm", "__asm__", "__asm"))
QUALIFIERS = frozenset(("volatile", "__volatile__", "__volatile", "goto", "inline", "__inline__"))
_DEPTH = 8
"""Macros within macros that are followed."""

_DIRECTIVE = re.compile(
    r"(?:^|[\n;{}:])\s*(?:[\w.$]+:\s*)*"
    r"\.(incbin|include|section|pushsection|popsection|previous|subsection|symver|weakref|macro"
    r"|altmacro|irpc?|rept|set|equi?v?|eqv|org|globa?l|hidden|type|text|data|bss|init_array|fini_array"
    r"|preinit_array|[cd]tors|byte|[248]byte|short|hword|value|word|int|long|quad|octa|inst|asciz?"
    r"|string(?:8|16|32|64)?|fill|zero|skip|space|dc(?:\.\w)?|dcb|ds|reloc|code(?:16|32|64)|intel_syntax)"
    r"\b(?!\s*\.(?:align|[busf]\d|v\d))"  # `.global .align 4 .b8 x[4];` is a variable of PTX
)
_KERNEL_CALL = re.compile(
    r"\b(syscall|sysenter|sysretq?|vmcall)\b|\bint\s+\$?(?:0x80|128)\b|\bsvc\b"
)
_HOST_CLOCK = re.compile(r"\b(rdtscp?|rdpmc|cntvct_el0)\b")
_DEVICE_CLOCK = re.compile(r"%(clock64|clock_hi|clock|globaltimer\w*)")


@dataclass(frozen=True, slots=True)
class Assembly:
    """One `asm` statement or declaration.

    Attributes:
        text: its template with macros replaced; what is no text has its spelling.
        line: where it begins.
        outside: whether it is outside every function, and not in a macro.
    """

    text: str
    line: int
    outside: bool

    def directive(self) -> str | None:
        """The first directive to the assembler that PTX does not have."""
        found = _DIRECTIVE.search(self.text)
        return f".{found[1]}" if found else None

    def kernel_call(self) -> str | None:
        """The first instruction that enters the operating system."""
        found = _KERNEL_CALL.search(self.text)
        return found[0] if found else None

    def clock(self) -> str | None:
        """The first register or instruction that tells the time."""
        found = _DEVICE_CLOCK.search(self.text) or _HOST_CLOCK.search(self.text)
        return found[0] if found else None


def assemblies(
    tokens: tuple[Token, ...], macros: Mapping[str, tuple[Token, ...]]
) -> Iterator[Assembly]:
    """Yields the inline assembly of a file, macro bodies included."""
    braces: list[bool] = []  # of each open brace, whether it encloses declarations only
    head: list[str] = []
    for index, token in enumerate(tokens):
        if token.kind == "name" and token.text in _ASM:
            template = _template(tokens, index + 1)
            if template is not None:
                outside = all(braces) and not token.directive
                yield Assembly(_expanded(template, macros), token.line, outside)
        if token.directive:
            continue
        if token.text == "{" and token.kind == "mark":
            braces.append(_encloses_declarations(head))
            head = []
        elif token.text == "}" and token.kind == "mark":
            if braces:
                braces.pop()
            head = []
        elif token.text == ";":
            head = []
        else:
            head.append(token.text)


def _encloses_declarations(head: list[str]) -> bool:
    return "namespace" in head or (
        len(head) >= 2 and head[-2:] in (["extern", "C"], ["extern", "C++"])
    )


def _template(tokens: tuple[Token, ...], start: int) -> tuple[Token, ...] | None:
    """The tokens of the template: after the parenthesis, up to the first colon or the end."""
    index = start
    while index < len(tokens) and tokens[index].text in QUALIFIERS:
        index += 1
    if index >= len(tokens) or tokens[index].text != "(":
        return None
    depth, first = 0, index + 1
    for index in range(first - 1, len(tokens)):
        token = tokens[index]
        if token.kind == "text":
            continue
        depth += (token.text == "(") - (token.text == ")")
        if depth == 0 or (depth == 1 and token.text in (":", "::")):
            return tokens[first:index]
    return tokens[first:]


def _expanded(
    template: tuple[Token, ...], macros: Mapping[str, tuple[Token, ...]], depth: int = 0
) -> str:
    """Text of a template; names of macros are replaced by their bodies, arguments stay where they are."""
    parts: list[str] = []
    for token in template:
        if token.kind == "text":
            parts.append(token.text)
        elif token.kind == "name" and token.text in macros and depth < _DEPTH:
            parts.append(_expanded(macros[token.text], macros, depth + 1))
        elif token.kind != "mark":
            parts.append(token.text)
    return "".join(parts)
