"""What sources may not say, however it is spelled; and that the same words in comments and texts are nothing."""

import pytest

from astra_kernels.languages.cuda.source_rules import source_findings


def findings(text, baseline=None, path="kernel.cu"):
    return source_findings({path: text}, {} if baseline is None else {path: baseline})


IN_FUNCTION = "void f() {{ {} }}"


@pytest.mark.parametrize(
    ("text", "rule"),
    [
        (IN_FUNCTION.format('asm(".incbin \\"/etc/passwd\\"");'), "assembler"),
        (
            IN_FUNCTION.format('asm volatile ("nop\\n\\t.section .init\\nnop" ::: "memory");'),
            "assembler",
        ),
        (IN_FUNCTION.format('asm("\\x2eincbin \\"x\\"");'), "assembler"),
        (IN_FUNCTION.format('asm(R"(.pushsection .init_array)");'), "assembler"),
        (IN_FUNCTION.format('asm("sys" "call");'), "assembler"),
        (
            '#define WORD "sys"\n#define ALL WORD "call"\n' + IN_FUNCTION.format("asm(ALL);"),
            "assembler",
        ),
        ('#define DO asm("sysc" "all")\n', "assembler"),
        (IN_FUNCTION.format('asm("int $0x80");'), "assembler"),
        (IN_FUNCTION.format('__asm__ __volatile__("sysenter");'), "assembler"),
        (IN_FUNCTION.format('asm(".byte 0x0f, 0x05");'), "assembler"),
        ('asm("nop");', "assembler"),
        ('namespace a { extern "C" { asm("nop"); } }', "assembler"),
        ('static void f() __asm__("g");', "assembler"),
        ("#define A asm\n" + IN_FUNCTION.format('A volatile("nop");'), "hidden-keyword"),
        ("#define A(x) x\n" + IN_FUNCTION.format('A(asm)("syscall");'), "hidden-keyword"),
        ("#define A asm volatile\n" + IN_FUNCTION.format('A("nop");'), "hidden-keyword"),
        ('#define A __attribute__\nint f() A((section("x")));', "hidden-keyword"),
        ('#define P _Pragma\nP("GCC optimize(3)")', "hidden-keyword"),
        ('#define L [\nL L gnu::section("x")]] int a;', "hidden-keyword"),
        ('[ [gnu::section("x")] ] int a;', "attribute"),
        ('<:<:gnu::section("x"):>:> int a;', "attribute"),
        ('#include "/etc/passwd"', "include"),
        ("#include </proc/self/environ>", "include"),
        ("%:include </dev/stdin>", "include"),
        ("#inc\\\nlude </dev/stdin>", "include"),
        ("??=include </dev/stdin>", "include"),
        ('#include "a/../../x.h"', "include"),
        ('#define WHICH "/proc/version"\n#include WHICH', "include"),
        ("#include WHICH", "include"),
        ('#if __has_include("/home/someone/.ssh/id_rsa")\n#endif', "include"),
        ("__attribute__((constructor)) void f() {}", "attribute"),
        ("__attribute__((__destructor__(101))) void f() {}", "attribute"),
        ("[[gnu::constructor]] void f() {}", "attribute"),
        ("#define EARLY constructor\n__attribute__((EARLY)) void f();", "attribute"),
        ("// why??/\n__attribute__((constructor)) void f();", "attribute"),
        ('__attribute__((section(".init_array"))) void* p;', "attribute"),
        ('__attribute__((unused, optimize("fast-math"))) int f();', "attribute"),
        ("#pragma GCC optimize(3)", "pragma"),
        ('_Pragma("GCC target(\\"avx2\\")")', "pragma"),
        ("#pragma redefine_extname f g", "pragma"),
        ("void __sti____cudaRegisterAll();", "generated-name"),
        ("void _ZL24__sti____cudaRegisterAllv();", "generated-name"),
        ('extern "C" void __cudaRegisterFunction();', "generated-name"),
        ("void _GLOBAL__sub_I_x();", "generated-name"),
    ],
)
def test_rejecting(text, rule):
    found = findings(text)
    assert [one.rule for one in found if one.weight == "rejecting"] == [rule], found
    assert not findings(text, text), "what the baseline says is allowed"


@pytest.mark.parametrize(
    ("text", "rule"),
    [
        (IN_FUNCTION.format("long t = clock64();"), "clock"),
        (IN_FUNCTION.format('asm("mov.u64 %0, %%globaltimer;" : "=l"(t));'), "clock"),
        (IN_FUNCTION.format('asm("rdtsc" : "=a"(t));'), "clock"),
        ("const char* when = __DATE__;", "build-time"),
        ("bool here = __FILE__[0] == 47;", "build-time"),
        ("#define CAT(a, b) a##b\nint x = CAT(cuda, DeviceSynchronize)();", "pasted-name"),
        ("#define CALL(x) cuda##x\n", "pasted-name"),
        ("#define CAT(a, b) a##b\nauto p = CAT(dl, sym)(0, 0);", "pasted-name"),
    ],
)
def test_suspicious(text, rule):
    found = findings(text)
    assert {(one.rule, one.weight) for one in found} == {(rule, "suspicious")}
    assert not findings(text, text)


@pytest.mark.parametrize(
    "text",
    [
        '// asm(".incbin") __attribute__((constructor))\n/* #include "/etc/passwd" */',
        'const char* s = "__attribute__((constructor)) asm(\\".section\\")";',
        'const char* s = R"x(#include "/etc/passwd" )" asm("syscall") )x";',
        '#include <cuda_fp16.h>\n#include <cub/cub.cuh>\n#include "detail/vec.cuh"',
        IN_FUNCTION.format(
            'asm volatile("{.reg .pred p; @p ld.global.nc.v4.f32 {%0}, [%1];}" :: "r"(1));'
        ),
        IN_FUNCTION.format(
            'asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" :: "r"(a), "l"(b));'
        ),
        IN_FUNCTION.format('asm volatile("griddepcontrol.wait;" ::: "memory");'),
        IN_FUNCTION.format('asm("{.shared .align 8 .b64 bar; .local .b32 x; .param .b32 y;}");'),
        IN_FUNCTION.format('asm("{\\n\\t.global .align 4 .b8 x[4];\\n}");'),
        '#define PTX(x) asm volatile("ld." #x " %0, [%1];" : "=f"(v) : "l"(p))\n',
        "#define CHECK(x) check(x, __FILE__, __LINE__)\n",
        "#define DISPATCH(T, N) case N: return launch_##T<N>()\nDISPATCH(half, 4);",
        "#pragma once\n#pragma unroll 4\n#pragma nv_diag_suppress 177",
        "__attribute__((always_inline)) int f(); [[nodiscard]] int g(); int n = 1'000'000; char c = '\"';",
        "int section = 1, constructor = 2, clock = 3; float target[4]; struct s { int alias; };",
        "int a[3]; int b = a[a[0]]; int c = x<::y>(1);",
        "#if defined(__has_include)\n#define HAS(x) __has_include(x)\n#endif",
        "__nv_bfloat162 v = __nv_cvt(x); // what??!\n",
    ],
)
def test_honest(text):
    assert findings(text) == ()


@pytest.mark.parametrize(
    "text",
    [
        '#define WAIT asm volatile("griddepcontrol.wait;" ::: "memory")\nvoid f() { WAIT; }',
        "#define INLINE __attribute__((always_inline)) inline\nINLINE int f() { return 1; }",
        '#define UNROLL _Pragma("unroll")\nvoid f() { UNROLL for (;;) {} }',
        "#define AT(a, i) ((a)[(i)])\nint f(int* a) { return a[a[0]] + AT(a, 1); }",
        "#define UNUSED [[maybe_unused]]\nUNUSED static int x;",
    ],
)
def test_whole_keywords_in_macros_are_honest(text):
    assert source_findings({"kernel.cu": text}, {}) == ()


def test_a_file_of_the_tree_may_be_included_from_a_directory():
    sources = {"a/b.cuh": '#include "../c.cuh"', "c.cuh": "", "k.cu": '#include "a/../c.cuh"'}
    assert source_findings(sources, {}) == ()


def test_lines_are_those_of_the_file():
    text = '/* two\nlines */ int a; \\\n  int b; const char* s = R"(\n)";\nasm("nop");\n'
    (found,) = findings(text)
    assert found.place == "kernel.cu:5"
    assert str(found).startswith("kernel.cu:5: asm(")


def test_a_macro_of_another_file_counts():
    sources = {"a.h": "#define EARLY __attribute__((constructor))\n", "k.cu": "EARLY void f() {}"}
    (found,) = source_findings(sources, {})
    assert (found.rule, found.place) == ("attribute", "a.h:1")


def test_more_of_what_the_baseline_does_is_allowed_and_nothing_else():
    baseline = IN_FUNCTION.format('asm("syscall");')
    candidate = baseline + IN_FUNCTION.format('asm("syscall; .section .init");')
    assert [one.symbol for one in findings(candidate, baseline)] == [".section"]
