"""The new file and the operator's own: what is taken apart, and where what is put in."""

import pytest

from astra_kernels.errors import ExportRefused
from astra_kernels.exporters.insertion import guarded
from astra_kernels.exporters.namespaced import moved_files, namespaced
from astra_kernels.exporters.trace import Share
from astra_kernels.records.provenance import OriginalFunction

GUARD = ("if (c(n)) {", "  return new_f(n);", "}")


def put(text, line=1, name="f"):
    return guarded(
        text, OriginalFunction(name=name, file="k.cu", line=line), "#include <new>", GUARD
    )


def test_the_guard_is_the_first_statement_and_the_include_the_last():
    text = "#include <a>\n\n#include <b>\nint g();\n#include <late>\nvoid f(int n) {\n    g();\n}\n"
    assert put(text, 6) == (
        "#include <a>\n\n#include <b>\n#include <new>\nint g();\n#include <late>\nvoid f(int n) {\n"
        "    if (c(n)) {\n      return new_f(n);\n    }\n    g();\n}\n"
    )


def test_line_ends_stay():
    text = "#include <a>\r\nvoid f(int n) {\r\n  g();\r\n}\r\n"
    assert "\n" not in put(text, 2).replace("\r\n", "")


def test_a_body_on_one_line_and_no_include():
    made = put("// Licence.\nvoid f(int n) { g(n); }\n", 2)
    assert made.startswith("// Licence.\n#include <new>\nvoid f(int n) {\n  if (c(n)) {\n")
    assert made.endswith("  }\n  g(n); }\n")


def test_the_line_decides_between_overloads():
    text = "void f(int n) {\n  a();\n}\nvoid f(long n) {\n  b();\n}\n"
    assert put(text, 4).index("new_f") > text.index("long")
    assert put(text, 1).index("new_f") < put(text, 1).index("a();")
    with pytest.raises(ExportRefused, match="2 definitions"):
        put(text, 9)
    with pytest.raises(ExportRefused, match="0 definitions"):
        put(text, name="h")


SOURCES = {
    "k.cu": """\
#include <cuda_runtime.h>
#include "a/used.h"
#if defined(WIDE)
#include <wide.h>
#endif
extern "C" {
int entry(int n) { return used(n) + ::lib::deep(n); }
}
TVM_FFI_DLL_EXPORT_TYPED_FUNC(entry, entry);
PYBIND11_MODULE(m, x) { x.def("entry", &entry); }
""",
    "a/used.h": """\
// Licence of used.h.
#ifndef USED_H
#define USED_H
#include "plain.h"
#include "deep.h"
#define TWICE(x) (2 * (x))
inline int used(int n) { return TWICE(n); }
inline int not_needed(int n) { return n; }
#endif  // USED_H
""",
    "a/deep.h": "#pragma once\nnamespace lib { inline int deep(int n) { return n; } }\n",
    "a/plain.h": "#pragma once\nstruct Plain {};\n",
}


def taken(changed=("a/deep.h",)):
    moved = moved_files(SOURCES, changed, "k.cu")
    return moved, namespaced(SOURCES, moved, "own", "entry")


def test_what_includes_a_changed_file_moves_too_and_after_it():
    assert taken()[0] == ("a/deep.h", "a/used.h", "k.cu")
    assert moved_files(SOURCES, ("k.cu",), "k.cu") == ("k.cu",)
    with pytest.raises(ExportRefused, match=r"other\.cu: changed, but not included"):
        moved_files({**SOURCES, "other.cu": ""}, ("other.cu",), "k.cu")


def test_includes_macros_and_namespaces():
    parts = taken()[1]
    assert parts.includes == ('#include "a/plain.h"', "#include <cuda_runtime.h>")
    assert parts.macros == ("TWICE",)
    assert parts.nested == ("lib",)
    texts = dict(parts.texts)
    assert "not_needed" not in texts["a/used.h"] and "USED_H" not in texts["a/used.h"]
    own = texts["k.cu"]
    assert "::own::lib::deep(n)" in own
    assert 'extern "C"' not in own and "TVM_FFI" not in own and "PYBIND11" not in own
    assert "}  // namespace own\n#include <wide.h>\nnamespace own {" in own
    assert own.count("{") == own.count("}")


def test_amdahl():
    share = Share(operator_us=20.0, all_us=100.0, calls=4)
    assert share.bound == pytest.approx(1.25)
    assert share.end_to_end(2.0) == pytest.approx(1 / 0.9)
    assert share.end_to_end(1.0) == pytest.approx(1.0)
