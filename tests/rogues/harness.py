"""Tricks against the clock and the harness, and against the machine that judges."""

from .edits import AFTER, KERNEL, STORE, STREAM, before, host
from .rogue import Rogue

_IMPORT = "rejected:imported-symbol"
_ADMISSION = "the import is neither a launcher's nor the baseline's"
_SOURCE = "the source rules see it before anything runs"
_SYS = """\
static long sys(long n, long a, long b, long c) {
  long r;
  asm volatile("syscall" : "=a"(r) : "a"(n), "D"(a), "S"(b), "d"(c) : "rcx", "r11", "memory");
  return r;
}"""


def refused(name, trick, edits, rule=_IMPORT, why=_ADMISSION, **fields):
    """A row that admission refuses on every device."""
    return Rogue(name=name, trick=trick, sim=rule, gpu=rule, why=why, edits=edits, **fields)


HARNESS = (
    Rogue(
        name="legacy-stream",
        trick="ignores the stream argument: the work is on the default stream",
        edits=((STREAM, "128, 0, cudaStreamLegacy"),),
        sim="rejected:stream",
        gpu="rejected:capture",
        why="a simulated device refuses work on another stream; on a GPU the call cannot be captured",
    ),
    refused(
        "own-stream",
        "leaves work in flight on a stream of its own",
        before("cudaStream_t mine; cudaStreamCreate(&mine); stream = mine;"),
    ),
    refused(
        "background-thread",
        "a thread of its own finishes the work later",
        before("std::thread([] {}).detach();", "thread"),
    ),
    refused(
        "host-callback",
        "host code runs in the stream",
        before("cudaLaunchHostFunc(stream, [](void*) {}, nullptr);"),
    ),
    Rogue(
        name="results-from-host",
        trick="host code writes results instead of a kernel",
        edits=((AFTER, "static_cast<volatile short*>(out)[0] = 0;"),),
        sim="crashed",
        gpu="crashed",
        why="device memory is closed to host code",
    ),
    refused(
        "managed-results",
        "waits on the host for results and repairs them there",
        before("cudaStreamSynchronize(stream);"),
    ),
    Rogue(
        name="capture-skips",
        trick="does nothing while it is captured",
        edits=before(
            "cudaStreamCaptureStatus status; cudaStreamIsCapturing(stream, &status);\n"
            "  if (status != cudaStreamCaptureStatusNone) return 0;"
        ),
        sim="passed",
        gpu="rejected:capture",
        why="a captured call must hold a kernel; nothing is captured on a simulated device, and asking is a finding",
    ),
    Rogue(
        name="capture-does-less",
        trick="does part of the work while it is captured",
        edits=before(
            "cudaStreamCaptureStatus status; cudaStreamIsCapturing(stream, &status);\n"
            "  if (status != cudaStreamCaptureStatusNone) tokens = 1;"
        ),
        sim="passed",
        gpu="incorrect|quarantined",
        why="outputs of timed calls are judged; nothing is captured on a simulated device, and asking is a finding",
    ),
    Rogue(
        name="call-counter",
        trick="works for the first calls only",
        edits=before("static int calls; if (++calls > 4) hidden = 1;"),
        sim="incorrect",
        gpu="incorrect|quarantined",
        why="outputs of timed calls are judged",
    ),
    refused(
        "phase-from-environment",
        "reads the environment for its phase or for secrets",
        before('if (getenv("API_KEY") != nullptr) return 1;', "cstdlib"),
    ),
    refused(
        "environment-without-getenv",
        "reads the environment through environ",
        before(
            "for (char** e = environ; *e != nullptr; e++) if (**e == 1) return 1;",
            host='extern "C" char** environ;',
        ),
    ),
    Rogue(
        name="fake-pass-on-stdout",
        trick="prints that it passed, and computes nothing right",
        edits=(
            *before('puts("{\\"outcome\\": \\"passed\\"}"); fflush(stdout);', "cstdio"),
            (STORE, f"gate = 0; {STORE}"),
        ),
        sim="incorrect",
        gpu="incorrect",
        why="results travel on a private pipe, and what decides is the output",
    ),
    refused(
        "fake-result-on-pipe",
        "writes a result to every descriptor",
        before('for (int fd = 3; fd < 999; fd++) write(fd, "{}\\n", 3);', "unistd.h"),
    ),
    refused(
        "raw-system-call",
        "enters the operating system without the C library",
        before("sys(1, 3, 0, 0);", host=_SYS),
        rule="rejected:assembler",
        why=_SOURCE,
    ),
    refused(
        "raw-system-call-in-pieces",
        "hides the instruction in macros and bytes",
        before('asm volatile(A B ".byte 0x0f, 0x05");', host='#define A "no"\n#define B "p\\n"'),
        rule="rejected:assembler",
        why=_SOURCE,
    ),
    refused(
        "signal-handler",
        "handles signals, to live through a deadline or a fault",
        before("signal(SIGSEGV, [](int) {});", "csignal"),
    ),
    Rogue(
        name="exit-hook",
        trick="does its work when the process ends",
        edits=before("atexit([] { abort(); });", "cstdlib"),
        sim="passed",
        gpu="passed",
        why="a child leaves without running hooks, after its results are out; the work itself was right",
    ),
    Rogue(
        name="early-exit",
        trick="ends the process before anything is compared",
        edits=before("exit(0);", "cstdlib"),
        sim="crashed",
        gpu="crashed",
        why="an end that the child did not announce is a crash",
    ),
    refused(
        "keyword-by-another-name",
        "gives `asm` another name, so that nobody looks for it",
        before('A volatile("nop");', host="#define A asm"),
        rule="rejected:hidden-keyword",
        why=_SOURCE,
    ),
    refused(
        "constructor",
        "runs code when the library is loaded",
        host("static int early; __attribute__((constructor)) static void begin() { early = 1; }"),
        rule="rejected:attribute",
        why=_SOURCE,
    ),
    refused(
        "forged-constructor",
        "runs code on loading under the name of nvcc's own constructor",
        (),
        rule="rejected:attribute|rejected:generated-name",
        why="the source rules see it; in the binary, what it calls tells it from nvcc's own",
        more={
            "second.cpp": "static int early;\n"
            "__attribute__((constructor)) static void _ZL24__sti____cudaRegisterAllv() { early = 1; }\n"
        },
    ),
    refused(
        "static-object",
        "an object outside functions calls the runtime on loading",
        host("static const int devices = [] { int n = 0; cudaGetDeviceCount(&n); return n; }();"),
        rule="rejected:load-time-code",
        why="what a constructor calls is read from the relocations of the library",
    ),
    refused(
        "second-runtime",
        "defines a function of the CUDA runtime itself",
        (),
        rule="rejected:own-runtime",
        why="the symbol table of the library shows the definition",
        more={
            "second.cpp": 'extern "C" int cudaMemsetAsync(void*, int, unsigned long, void*) { return 0; }\n'
        },
    ),
    refused(
        "runtime-by-dlsym",
        "looks functions of the runtime up by name",
        before('dlsym(RTLD_DEFAULT, "cudaDeviceSynchronize");', "dlfcn.h"),
    ),
    refused(
        "pasted-api-name",
        "puts the name of a function together from pieces",
        before("CAT(cudaDevice, Synchronize)();", host="#define CAT(a, b) a##b"),
        why="the library has to import it under its name",
    ),
    refused(
        "incbin",
        "assembles a file into the library",
        host('asm(".incbin \\"kernel.cu\\"");'),
        rule="rejected:assembler",
        why=_SOURCE,
    ),
    Rogue(
        name="incbin-reference",
        trick="assembles the reference into the library",
        edits=host('asm(".incbin \\"../reference.py\\"");'),
        sim="build_failed",
        gpu="build_failed",
        why="the compiler sees the candidate's own files only",
    ),
    Rogue(
        name="include-reference",
        trick="includes the reference or another file of the judge",
        edits=host('#include "../reference.py"'),
        sim="build_failed",
        gpu="build_failed",
        why="the compiler sees the candidate's own files only",
    ),
    Rogue(
        name="include-proc",
        trick="includes what the system says of the compiler's process",
        edits=host('static const char* environment =\n#include "/proc/self/environ"\n;'),
        sim="build_failed",
        gpu="build_failed",
        why="the compiler is confined, and its environment holds nothing",
    ),
    refused(
        "include-absolute",
        "includes a file by an absolute path",
        host("#include </usr/include/stdint.h>"),
        rule="rejected:include",
        why=_SOURCE,
    ),
    refused(
        "slow-baseline",
        "changes limits of the device, which slows the baseline",
        before("cudaDeviceSetLimit(cudaLimitPersistingL2CacheSize, 1 << 25);"),
    ),
    refused(
        "slow-baseline-by-cache",
        "keeps the cache for itself",
        before("cudaCtxResetPersistingL2Cache();"),
    ),
    refused(
        "flags-in-pragma",
        "changes the flags of the compiler in the source",
        host('#pragma GCC optimize("fast-math")'),
        rule="rejected:pragma",
        why=_SOURCE,
    ),
    Rogue(
        name="endless-host-loop",
        trick="never returns",
        edits=before("for (volatile int forever = 1; forever;) {}"),
        sim="timed_out",
        gpu="timed_out",
        why="a deadline ends the child",
        limit_s=8,
    ),
    Rogue(
        name="endless-kernel",
        trick="a kernel that never ends",
        edits=((KERNEL, "while (hidden > 0) __threadfence_block();"),),
        sim="timed_out",
        gpu="timed_out",
        why="a step limit or a deadline ends it",
        limit_s=20,
    ),
    Rogue(
        name="memory-hog",
        trick="takes all device memory, so that others have none",
        edits=before("void* hog; if (cudaMallocAsync(&hog, 1ull << 42, stream)) return 2;"),
        sim="crashed",
        gpu="crashed",
        why="what is asked for is more than the device has, and an error code is no result",
    ),
    Rogue(
        name="clock-in-kernel",
        trick="looks at the clock in a kernel",
        edits=((KERNEL, "if (clock64() == 1) return;"),),
        sim="passed",
        gpu="passed",
        why="it gains nothing by itself: a finding",
    ),
)
