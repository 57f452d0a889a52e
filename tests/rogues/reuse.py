"""Tricks that hand out results of an earlier call."""

from .edits import AFTER, DEVICE, KERNEL, LAUNCH, STORE, before
from .harness import refused
from .rogue import Rogue

_SAME = "// the same buffers again\n  static void *last_out, *last_in; if (out == last_out && in == last_in) hidden = 0;\n"

REUSE = (
    Rogue(
        name="cache-by-pointer",
        trick="does nothing when it is given the same buffers again",
        edits=((LAUNCH, f"{_SAME}  last_out = out; last_in = in;"),),
        sim="incorrect",
        gpu="incorrect|quarantined",
        why="outputs are poisoned before every call that is judged",
    ),
    Rogue(
        name="cache-in-kept-allocation",
        trick="keeps results in device memory that it allocated itself, by pointer, and copies them out",
        edits=(
            (
                LAUNCH,
                "static void *kept, *last_in; size_t size = tokens * hidden * 2;\n"
                "  if (in == last_in && kept) { cudaMemcpyAsync(out, kept, size, cudaMemcpyDeviceToDevice, stream);"
                " hidden = 0; }\n  last_in = in;",
            ),
            (
                AFTER,
                "if (hidden) { cudaMallocAsync(&kept, size, stream);"
                " cudaMemcpyAsync(kept, out, size, cudaMemcpyDeviceToDevice, stream); }",
            ),
        ),
        sim="incorrect|rejected",
        gpu="incorrect|quarantined|rejected",
        why="inputs change between calls that are judged",
    ),
    Rogue(
        name="cache-while-timing",
        trick="remembers that it was called with these buffers, after some calls",
        edits=(
            (
                LAUNCH,
                "static int calls; static void* last; calls = out == last ? calls + 1 : 0; last = out;\n"
                "  if (calls > 3) hidden = 0;",
            ),
        ),
        sim="incorrect",
        gpu="passed|incorrect",
        why="the same buffers come back with outputs poisoned; timed calls each have buffers of their own",
    ),
    refused(
        "cache-by-value-on-host",
        "a map on the host, from inputs to results",
        before("static char seen[512]; cudaMemcpy(seen, in, 512, cudaMemcpyDeviceToHost);"),
        why="inputs cannot be brought to the host: the copy that waits is not a launcher's",
    ),
    Rogue(
        name="cache-by-value-on-host-async",
        trick="reads inputs and writes results through asynchronous copies",
        edits=(
            (
                AFTER,
                "static char host[512];\n"
                "  cudaMemcpyAsync(host, out, 512, cudaMemcpyDeviceToHost, stream);\n"
                "  cudaMemcpyAsync(out, host, 512, cudaMemcpyHostToDevice, stream);",
            ),
        ),
        sim="incorrect",
        gpu="rejected:capture",
        why="nothing arrives on the host before the call returns; on a GPU a captured copy may not touch the host",
    ),
    refused(
        "cache-by-value-on-device",
        "a memo in a __device__ array, keyed by the inputs",
        (
            (DEVICE, "__device__ __half memo[1 << 16];"),
            (STORE, f"memo[(row * hidden + i) & 0xffff] = gate; {STORE}"),
        ),
        rule="rejected:device-memory",
        why="the machine code shows how much device memory outlives a call",
    ),
    refused(
        "cache-in-managed-memory",
        "a memo in a __managed__ array",
        (
            (DEVICE, "__managed__ int memo[1 << 12];"),
            (KERNEL, "memo[row & 0xfff] = hidden;"),
        ),
        rule="rejected:device-memory",
        why="the machine code shows how much device memory outlives a call",
    ),
    refused(
        "cache-in-filled-table",
        "a memo that looks like a table of constants",
        (
            (DEVICE, "__device__ int memo[1 << 12] = {1};"),
            (KERNEL, "memo[row & 0xfff] = hidden;"),
        ),
        rule="rejected:device-memory",
        why="a table that a kernel may write counts as device memory that outlives a call",
    ),
    refused(
        "cache-in-file",
        "keeps results in a file, for another process or run",
        before('fclose(fopen("/dev/shm/kept", "a"));', "cstdio"),
    ),
    Rogue(
        name="output-is-input",
        trick="leaves its results in the input",
        edits=((STORE, "const_cast<__half*>(in)[row * 2 * hidden + i] ="),),
        sim="incorrect",
        gpu="incorrect",
        why="outputs are poisoned before the call, and inputs compared after it",
    ),
    Rogue(
        name="damages-input",
        trick="changes an input that is not updated in place",
        edits=(
            (
                STORE,
                f"const_cast<__half*>(in)[row * 2 * hidden + i] = __float2half(x + 1); {STORE}",
            ),
        ),
        sim="incorrect",
        gpu="incorrect",
        why="inputs are compared after the call",
    ),
)
