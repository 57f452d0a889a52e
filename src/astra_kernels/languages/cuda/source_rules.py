"""What a candidate's sources say that a kernel and its launcher have no use for.

Sources are read as tokens, so comments and texts are no code, and line breaks and digraphs hide nothing.
What the baseline's sources say as well is allowed. The binary decides where it can (`load_time`,
`device_memory`); these rules see what leaves no trace there, and say where it stands.
"""

import posixpath
import re
from collections.abc import Iterable, Iterator, Mapping
from itertools import pairwise

from astra_kernels.languages.cuda.assembly import QUALIFIERS, assemblies
from astra_kernels.languages.cuda.findings import Finding
from astra_kernels.languages.cuda.tokens import Token, directives, macros_of, readings

Macros = Mapping[str, tuple[Token, ...]]

_INCLUDES = frozenset(("include", "include_next", "import", "embed"))
_WITH_TEXT = frozenset(
    ("asm", "__asm__", "__asm", "__attribute__", "__attribute", "_Pragma", "__pragma")
)
_ATTRIBUTES = {
    "constructor": "it runs when the library is loaded",
    "destructor": "it runs when the library is unloaded",
    "init_priority": "it orders code that runs when the library is loaded",
    "ifunc": "its resolver runs when the library is loaded",
    "section": "it puts code or data where other code is looked for",
    "alias": "it gives code a second name",
    "weakref": "it gives code a second name",
    "naked": "its machine code is written by hand",
    "optimize": "it changes the flags of the compiler",
    "target": "it changes the flags of the compiler",
}
_PRAGMAS = re.compile(
    r"GCC (optimize|target|push_options|pop_options|reset_options|poison)|clang (optimize|attribute)"
    r"|STDC (FP_CONTRACT|FENV_ACCESS|CX_LIMITED_RANGE)|weak|redefine_extname|float_control|fp_contract"
    r"|optimize|fenv_access"
)
_GENERATED = re.compile(
    r"\w*__sti____cuda\w*|_GLOBAL__\w*|__cuda(Register|Unregister|Init|Push|Pop|Get|Launch|FatCubin)\w*"
    r"|__fatDeviceText|fatbinData|__nv_(cuda|init|save|managed|fatbin|inited)\w*|frame_dummy"
    r"|__do_global_\w+|_init|_fini|__dso_handle|__TMC_END__|__(pre)?(init|fini)_array\w*|__libc_\w+"
)
_BUILD_TIME = frozenset(
    ("__DATE__", "__TIME__", "__TIMESTAMP__", "__BASE_FILE__", "__FILE__", "__builtin_FILE")
)
_OF_MESSAGES = frozenset(("__FILE__", "__builtin_FILE"))
_CLOCKS = re.compile(
    r"clock(64)?|__?globaltimer\w*|__nvvm_read_ptx_sreg_(clock|globaltimer)\w*|__builtin_readcyclecounter"
    r"|(__builtin_ia32_|__|_)rdtscp?|__rdpmc"
)
_PASTED = re.compile(
    r"_*cu(da)?[A-Z]\w*|__cuda\w*|dl(open|sym\w*)|getenv|syscall|__?asm(__)?|asm|__attribute(__)?"
    r"|constructor|section|fork|pthread_\w+|mmap|open(at)?|clock(64)?"
)
_PREFIX = re.compile(r"_*cu(da\w*)?|dl")


def source_findings(
    candidate: Mapping[str, str], baseline: Mapping[str, str]
) -> tuple[Finding, ...]:
    """Lists what a candidate's sources say that the baseline's do not.

    Args:
        candidate: text by path, headers included.
        baseline: likewise; empty when the baseline itself is examined.
    """
    known = {(one.rule, one.symbol) for one in _all(baseline)}
    said: dict[tuple[str, str], Finding] = {}
    for one in _all(candidate):
        key = (one.rule, one.symbol)
        if key not in known and (key not in said or _lighter(said[key], one)):
            said[key] = one
    return tuple(said.values())


def _lighter(first: Finding, second: Finding) -> bool:
    return first.weight == "suspicious" and second.weight == "rejecting"


def _all(sources: Mapping[str, str]) -> Iterator[Finding]:
    files = {path: readings(text) for path, text in sources.items()}
    macros: dict[str, tuple[Token, ...]] = {}
    for versions in files.values():
        for tokens in versions:
            for name, body in macros_of(tokens).items():
                macros[name] = (*macros.get(name, ()), *body)
    for path, versions in files.items():
        for tokens in versions:
            yield from _includes(path, tokens, macros)
            yield from _assembler(path, tokens, macros)
            yield from _attributes(path, tokens, macros)
            yield from _apart(path, tokens)
            yield from _pragmas(path, tokens)
            yield from _names(path, tokens)
            yield from _pasting(path, tokens, macros)


def _includes(path: str, tokens: tuple[Token, ...], macros: Macros) -> Iterator[Finding]:
    for line in directives(tokens):
        words = [one.text for one in line]
        if len(line) > 2 and words[1] in _INCLUDES:
            yield from _included(path, line[2:], macros)
        for index, word in enumerate(words):
            asks = word in ("__has_include", "__has_include_next", "__has_embed")
            asked = line[index + 2 :] if asks else ()
            if _included_name(asked, macros) is not None:
                yield from _included(path, asked, macros)


def _included(path: str, name: tuple[Token, ...], macros: Macros) -> Iterator[Finding]:
    place = f"{path}:{name[0].line}" if name else path
    target = _included_name(name, macros)
    if target is None:
        spelled = "".join(one.text for one in name)
        reason = "what is included cannot be told from the source"
        yield Finding("include", spelled, "rejecting", reason, place)
    elif target.startswith(("/", "~")) or "\\" in target:
        yield Finding("include", target, "rejecting", "an absolute path is included", place)
    elif posixpath.normpath(posixpath.join(posixpath.dirname(path), target)).startswith(".."):
        reason = "a file outside the sources is included"
        yield Finding("include", target, "rejecting", reason, place)


def _included_name(name: tuple[Token, ...], macros: Macros, depth: int = 0) -> str | None:
    if not name or depth > 8:
        return None
    if name[0].kind == "text":
        return name[0].text
    if name[0].text == "<":
        end = next((i for i, one in enumerate(name) if one.text == ">"), len(name))
        return "".join(one.text for one in name[1:end])
    return _included_name(macros.get(name[0].text, ()), macros, depth + 1)


def _assembler(path: str, tokens: tuple[Token, ...], macros: Macros) -> Iterator[Finding]:
    for one in assemblies(tokens, macros):
        place = f"{path}:{one.line}"
        if directive := one.directive():
            reason = "a directive to the assembler that device code does not have"
            yield Finding("assembler", directive, "rejecting", reason, place)
        if call := one.kernel_call():
            reason = "the operating system is called without the C library"
            yield Finding("assembler", call, "rejecting", reason, place)
        if clock := one.clock():
            yield Finding("clock", clock, "suspicious", "the code looks at a clock", place)
        if one.outside:
            reason = "assembly outside every function"
            yield Finding("assembler", f"asm({one.text[:60]!r})", "rejecting", reason, place)


def _attributes(path: str, tokens: tuple[Token, ...], macros: Macros) -> Iterator[Finding]:
    for index, token in enumerate(tokens):
        if token.text in ("__attribute__", "__attribute") and token.kind == "name":
            inside = _enclosed(tokens, index + 1, "(", ")")
        elif _opens_attribute(tokens, index):
            inside = _enclosed(tokens, index, "[", "]")
        else:
            continue
        for name in _words(inside, macros):
            reason = _ATTRIBUTES.get(name.strip("_"))
            if reason is not None:
                yield Finding("attribute", name, "rejecting", reason, f"{path}:{token.line}")


def _opens_attribute(tokens: tuple[Token, ...], index: int) -> bool:
    """Whether two brackets stand here, with or without space between them."""
    return [one.text for one in tokens[index : index + 2]] == ["[", "["]


def _apart(path: str, tokens: tuple[Token, ...]) -> Iterator[Finding]:
    """Keywords without what belongs to them, and halves of brackets: a macro may put them together unseen."""
    for index, token in enumerate(tokens):
        if token.kind == "name" and token.text in _WITH_TEXT:
            rest = tokens[index + 1 :]
            after = next((one for one in rest if one.text not in QUALIFIERS), None)
            broken = after is None or (token.directive and after.first)
            if broken or after is None or after.text != "(":
                reason = "a keyword without its text, which a macro can add unseen"
                yield Finding(
                    "hidden-keyword", token.text, "rejecting", reason, f"{path}:{token.line}"
                )
    for line in directives(tokens):
        words = [one.text for one in line if one.kind != "text"]
        if len(line) > 1 and line[1].text == "define" and words.count("[") != words.count("]"):
            reason = "a macro with half of a pair of brackets, which can hide an attribute"
            yield Finding(
                "hidden-keyword", line[2].text, "rejecting", reason, f"{path}:{line[0].line}"
            )


def _enclosed(tokens: tuple[Token, ...], start: int, opening: str, closing: str) -> list[Token]:
    depth, inside = 0, []
    for token in tokens[start:]:
        if token.kind == "mark":
            depth += (token.text == opening) - (token.text == closing)
        if depth == 0:
            break
        inside.append(token)
    return inside


def _words(tokens: Iterable[Token], macros: Macros, depth: int = 0) -> Iterator[str]:
    """Names among tokens, and those in the bodies of macros among them."""
    for token in tokens:
        if token.kind == "name":
            yield token.text
            if token.text in macros and depth < 8:
                yield from _words(macros[token.text], macros, depth + 1)


def _pragmas(path: str, tokens: tuple[Token, ...]) -> Iterator[Finding]:
    said = [
        (line[0].line, " ".join(one.text for one in line[2:]))
        for line in directives(tokens)
        if len(line) > 2 and line[1].text == "pragma"
    ]
    for index, token in enumerate(tokens[:-2]):
        if token.text in ("_Pragma", "__pragma"):
            said.append((token.line, tokens[index + 2].text))
    for number, text in said:
        if _PRAGMAS.match(text):
            reason = "it changes what the flags of the compiler or the linker say"
            yield Finding("pragma", text, "rejecting", reason, f"{path}:{number}")


def _names(path: str, tokens: tuple[Token, ...]) -> Iterator[Finding]:
    for index, token in enumerate(tokens):
        if token.kind != "name":
            continue
        place = f"{path}:{token.line}"
        if _GENERATED.fullmatch(token.text):
            reason = "a name that nvcc or the C runtime makes and uses"
            yield Finding("generated-name", token.text, "rejecting", reason, place)
        elif token.text in _BUILD_TIME and not (token.directive and token.text in _OF_MESSAGES):
            reason = "the code depends on when or where it was built"
            yield Finding("build-time", token.text, "suspicious", reason, place)
        elif _CLOCKS.fullmatch(token.text) and tokens[index + 1 : index + 2][0:1]:
            if tokens[index + 1].text == "(":
                reason = "the code looks at a clock"
                yield Finding("clock", token.text, "suspicious", reason, place)


def _pasting(path: str, tokens: tuple[Token, ...], macros: Macros) -> Iterator[Finding]:
    pasting = {name for name, body in macros.items() if any(one.text == "##" for one in body)}
    for index, token in enumerate(tokens):
        pairs: list[tuple[str, str]] = []
        if token.text == "##" and token.directive and 0 < index < len(tokens) - 1:
            pairs = [(tokens[index - 1].text, tokens[index + 1].text)]
        elif token.text in pasting and not token.directive:
            pairs = list(pairwise(_arguments(_enclosed(tokens, index + 1, "(", ")"))))
        for first, second in pairs:
            started = token.text == "##" and _PREFIX.fullmatch(first)
            if first and second and (started or _PASTED.fullmatch(first + second)):
                reason = "a name is put together from pieces"
                place = f"{path}:{token.line}"
                yield Finding("pasted-name", first + second, "suspicious", reason, place)


def _arguments(enclosed: list[Token]) -> list[str]:
    """The arguments of a macro; "" for one that is more than a name."""
    arguments: list[list[Token]] = [[]]
    for token in enclosed[1:]:
        if token.text == "," and token.kind == "mark":
            arguments.append([])
        else:
            arguments[-1].append(token)
    return [one[0].text if len(one) == 1 and one[0].kind == "name" else "" for one in arguments]
