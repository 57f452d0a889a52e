"""Splitting CUDA C++ into preprocessing tokens: what is code, what is comment, what is text.

After translation phases 1 to 3 of the C++ standard, [lex.phases]: lines are spliced, digraphs are their
other spelling, comments are gone. Standard library only, since it runs where candidates are judged.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Literal

Kind = Literal["name", "number", "text", "mark"]

_SPLICE = re.compile(r"\\[ \t\v\f]*\r?\n")
_PREFIX = r"(?:u8|[uUL])?"
_TOKEN = re.compile(
    rf"""
    (?P<comment>//[^\n]*|/\*.*?(?:\*/|\Z))
    |(?P<raw>{_PREFIX}R"(?P<fence>[^()\\\s]{{0,16}})\((?P<body>.*?)\)(?P=fence)")
    |(?P<text>{_PREFIX}"(?:[^"\\\n]|\\.)*"?|{_PREFIX}'(?:[^'\\\n]|\\.)*'?)
    |(?P<number>\.?\d(?:[eEpP][+-]|'?[\w.])*)
    |(?P<name>[^\W\d]\w*)
    |(?P<newline>\n)
    |(?P<mark>%:%:|\#\#|%:|<%|%>|<:|:>|::|[^\s\w])
    """,
    re.VERBOSE | re.DOTALL,
)
_DIGRAPHS = {"%:": "#", "%:%:": "##", "<%": "{", "%>": "}", "<:": "[", ":>": "]"}
_TRIGRAPHS = dict(zip("=/'()!<>-", "#\\^[]|{}~", strict=True))
_TRIGRAPH = re.compile(r"\?\?([=/'()!<>-])")
_ESCAPE = re.compile(r"\\(x[0-9a-fA-F]+|[0-7]{1,3}|u[0-9a-fA-F]{4}|U[0-9a-fA-F]{8}|.)", re.DOTALL)
_CONTROLS = {"n": "\n", "t": "\t", "r": "\r", "v": "\v", "f": "\f", "a": "\a", "b": "\b"}


@dataclass(frozen=True, slots=True)
class Token:
    """One preprocessing token.

    Attributes:
        kind: "text" is a string or character literal.
        text: its spelling; for "text" what the literal means, escapes resolved.
        line: where it begins, from 1.
        directive: whether it is part of a preprocessing directive, such as the body of a macro.
        first: whether it is the first of its line.
    """

    kind: Kind
    text: str
    line: int
    directive: bool
    first: bool


def tokens_of(source: str) -> tuple[Token, ...]:
    """The tokens of a file; whatever is no token is a mark of its own."""
    return tuple(_tokens(source))


def readings(source: str) -> tuple[tuple[Token, ...], ...]:
    """The tokens of a file as its compiler may see them: with and without trigraphs.

    Whether `??/` continues a line depends on the language version, and a rule must not.
    """
    plain = tokens_of(source)
    replaced = _TRIGRAPH.sub(lambda found: _TRIGRAPHS[found[1]], source)
    return (plain,) if replaced == source else (plain, tokens_of(replaced))


def macros_of(tokens: tuple[Token, ...]) -> Mapping[str, tuple[Token, ...]]:
    """The body of every macro that a file defines, the parameters of a function-like one included.

    Of several definitions of one name the bodies follow each other.
    """
    macros: dict[str, tuple[Token, ...]] = {}
    for line in directives(tokens):
        if len(line) > 2 and line[1].text == "define":
            macros[line[2].text] = (*macros.get(line[2].text, ()), *line[3:])
    return macros


def directives(tokens: tuple[Token, ...]) -> Iterator[tuple[Token, ...]]:
    """Yields each preprocessing directive from its `#` on."""
    line: list[Token] = []
    for token in tokens:
        if line and (token.first or not token.directive):
            yield tuple(line)
            line = []
        if token.directive:
            line.append(token)
    if line:
        yield tuple(line)


def _tokens(source: str) -> Iterator[Token]:
    text, splices = _spliced(source)
    line, position, removed, first, directive = 1, 0, 0, True, False
    for found in _TOKEN.finditer(text):
        line += text.count("\n", position, found.start())
        position = found.start()
        while removed < len(splices) and splices[removed] <= position:
            removed += 1
        kind = found.lastgroup if found.lastgroup != "body" else "raw"
        if kind == "newline":
            first, directive = True, False
        elif kind != "comment":
            spelled = _DIGRAPHS.get(found[0], found[0])
            directive = directive or (first and spelled == "#")
            yield _token(found, spelled, line + removed, directive=directive, first=first)
            first = False


def _token(found: re.Match[str], spelled: str, line: int, *, directive: bool, first: bool) -> Token:
    kind: Kind = "mark"
    if found["raw"] is not None:
        kind, spelled = "text", found["body"]
    elif found["text"] is not None:
        kind, spelled = "text", _meaning(found["text"])
    elif found["name"] is not None:
        kind = "name"
    elif found["number"] is not None:
        kind = "number"
    return Token(kind, spelled, line, directive, first)


def _spliced(source: str) -> tuple[str, list[int]]:
    """The text with continued lines joined, and where in it a line break was taken out."""
    parts: list[str] = []
    places: list[int] = []
    length = last = 0
    for found in _SPLICE.finditer(source):
        parts.append(source[last : found.start()])
        length += found.start() - last
        places.append(length)
        last = found.end()
    return "".join((*parts, source[last:])), places


def _meaning(literal: str) -> str:
    quote = '"' if '"' in literal[:3] else "'"
    body = literal[literal.index(quote) + 1 :]
    body = body[:-1] if body.endswith(quote) else body
    return _ESCAPE.sub(_character, body)


def _character(found: re.Match[str]) -> str:
    escape = found[1]
    if escape[0] in "01234567":
        return chr(int(escape, 8))
    if escape[0] in "xuU" and len(escape) > 1:
        code = int(escape[1:], 16)
        return chr(code) if code < 0x110000 else "?"
    return _CONTROLS.get(escape, escape)
