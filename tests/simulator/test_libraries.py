"""Libraries that cannot be run: cut short, damaged, without a device link; and what their variables start with."""

import os
import subprocess
import sys
import textwrap

import numpy as np
import pytest

from astra_kernels.simulator import SimulatorRefusal, UnsupportedPtx
from astra_kernels.simulator.errors import CompressedFatbin, DamagedLibrary, InvalidPtx
from astra_kernels.simulator.fatbin import find_ptx, find_registers, images
from tests.simulator.conftest import SOURCES
from tests.simulator.handwritten import module_of, run

MAGIC = bytes.fromhex("50ed55ba")


@pytest.fixture(scope="module")
def whole(built):
    return built["hosting"].read_bytes()


@pytest.mark.parametrize("share", [0.001, 0.01, 0.1, 0.5, 0.9, 0.999])
def test_a_library_that_is_cut_short(device, whole, tmp_path, share):
    path = tmp_path / "cut.so"
    path.write_bytes(whole[: int(len(whole) * share)])
    with pytest.raises(DamagedLibrary, match=r"cut\.so is cut short or damaged"):
        device.simulator.load(path)


def test_a_file_that_is_no_library(device, tmp_path):
    path = tmp_path / "text.so"
    for text in (b"", b"\x7fELF", b"hello\n" * 99):
        path.write_bytes(text)
        with pytest.raises(SimulatorRefusal, match="is not a 64-bit shared library"):
            device.simulator.load(path)


def read_all(image):
    find_registers(image, 90)
    return find_ptx(image, 90)


def test_no_damage_to_a_fat_binary_is_a_traceback(whole):
    """Each word of the header and of the first entry's header changed; refused, or read as far as it goes."""
    start = whole.index(MAGIC)
    (image, *_) = images(whole[start:])
    ends = 0
    for at in range(0, 80, 4):
        for word in (b"\xff\xff\xff\xff", b"\0\0\0\0", b"\x01\0\0\0"):
            damaged = image[:at] + word + image[at + 4 :]
            try:
                read_all(damaged)
            except (DamagedLibrary, CompressedFatbin):
                ends += 1
    assert ends > 10
    for size in range(0, 200, 8):
        with pytest.raises((DamagedLibrary, CompressedFatbin)):
            read_all(image[:size])
    with pytest.raises(DamagedLibrary):
        images(whole[start : start + 100])


def test_no_damage_to_the_tables_of_a_library_is_a_traceback(device, whole, tmp_path):
    """Words of the file's header and of its section headers, in a process of its own: some are left to the loader."""
    path, names = tmp_path / "damaged.so", np.random.default_rng(1)
    sections = int.from_bytes(whole[0x28:0x30], "little")
    places = [*range(0x20, 0x40, 4), *(sections + 4 * int(i) for i in names.integers(0, 480, 60))]
    program = textwrap.dedent("""
        import sys
        from pathlib import Path
        from astra_kernels.simulator import SimulatorRefusal
        from astra_kernels.simulator.executor_interface import Executor
        from astra_kernels.simulator.library import check_library
        from astra_kernels.simulator.native import native_library
        executor, path, ends = Executor(native_library()), Path(sys.argv[1]), 0
        whole = path.read_bytes()
        for place in map(int, sys.argv[2:]):
            for word in (b"\\xff" * 4, bytes(4), b"\\xf0\\xff\\0\\0"):
                path.write_bytes(whole[:place] + word + whole[place + 4:])
                try:
                    check_library(path, executor, 90)
                except SimulatorRefusal:
                    ends += 1
        print(ends)
    """)
    path.write_bytes(whole)
    command = [sys.executable, "-c", program, str(path), *map(str, places)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=os.environ)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) > 20


def test_relocatable_device_code_is_named_as_the_cause(device, toolchain, tmp_path):
    """Linked by the host's linker alone, and with a device link, which leaves no PTX."""
    plain = tmp_path / "plain.o"
    flags = ["-gencode", "arch=compute_90,code=compute_90", "-Xcompiler", "-fPIC", "--no-compress"]
    library = tmp_path / "plain.so"
    for command in (
        [toolchain.nvcc, "-rdc=true", *flags, "-c", SOURCES / "wide_integers.cu", "-o", plain],
        ["g++", "-shared", plain, "-o", library],
    ):
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
    with pytest.raises(CompressedFatbin, match=r"built with -rdc=true.*device link"):
        device.simulator.load(library)


NUMBERS = ".global .align 4 .u32 g[4] = {10, 11, 12, 13};\n"


@pytest.mark.parametrize(
    ("declaration", "at"),
    [
        (".global .align 8 .u64 p = generic(g)+8;", 0),
        (".global .align 8 .u64 p = generic(g) + 8;", 0),
        (".global .align 8 .u64 p = g+8;", 0),
        (".global .align 8 .u64 p[3] = {5, generic(g)+8, g};", 8),
        (".const .align 8 .u64 p[2] = {generic(g)+0x10, generic(g)+8};", 8),
        (".global .align 8 .u64 q = 7;\n.global .align 8 .u64 p[2] = {generic(q)+8, g+8};", 8),
        (
            ".global .align 8 .b8 p[9] = {1, "
            + ", ".join(f"0x{0xFF << 8 * i:X}(generic(g)+8)" for i in range(8))
            + "};",
            1,
        ),
    ],
)
def test_variables_that_start_as_addresses(declaration, at):
    space = "const" if ".const" in declaration else "global"
    parts = "\n".join(
        f"  ld.{space}.u8 %r{i}, [%rd2+{at + i}]; cvt.u64.u32 %rd3, %r{i};"
        f" shl.b64 %rd3, %rd3, {8 * i}; or.b64 %rd4, %rd4, %rd3;"
        for i in range(8)
    )
    body = f"""
  ld.param.u64 %rd1, [p0];
  mov.u64 %rd2, p;
  mov.u64 %rd4, 0;
{parts}
  ld.u32 %r9, [%rd4];
  st.global.u32 [%rd1], %r9;
"""
    y = np.zeros(1, np.uint32)
    assert run(module_of(body, functions=NUMBERS + declaration), y).fault is None
    assert y[0] == 12


FUNCTION = ".func other() { ret; }\n.global .align 8 .u64 p[2] = {5, other};\n"


def test_the_address_of_a_function_is_refused_by_name():
    body = "  ld.param.u64 %rd1, [p0];\n  ld.global.u64 %rd2, [p];\n  st.global.u64 [%rd1], %rd2;"
    with pytest.raises(UnsupportedPtx, match="`p` holds the address of other"):
        run(module_of(body, functions=FUNCTION), np.zeros(1, np.uint64))
    fine = "  ld.param.u64 %rd1, [p0];\n  st.global.u64 [%rd1], 3;"
    y = np.zeros(1, np.uint64)
    assert run(module_of(fine, functions=FUNCTION), y).fault is None
    assert y[0] == 3


def test_a_mask_that_is_no_byte_of_an_address():
    with pytest.raises(InvalidPtx, match="initial value"):
        run(module_of("", functions=NUMBERS + ".global .b8 p[1] = {0x1F0(g)};"), np.zeros(1))


def test_what_a_killed_build_left_behind_goes_with_the_next_one(tmp_path):
    """The build itself takes a minute; here its compiler says no, after the clean-up."""
    cache, tools = tmp_path / "astra-kernels" / "simulator", tmp_path / "bin"
    for name in ("tmpabc", "building-def"):
        (cache / name).mkdir(parents=True)
        (cache / name / "half.o").touch()
    (cache / "0123456789").mkdir()
    tools.mkdir()
    (tools / "g++").write_text("#!/bin/sh\nexit 1\n")
    (tools / "g++").chmod(0o755)
    program = "from astra_kernels.simulator.native import native_library as n; n()"
    done = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        check=False,
        env={
            **os.environ,
            "XDG_CACHE_HOME": str(tmp_path),
            "PATH": f"{tools}:{os.environ['PATH']}",
        },
    )
    assert "SimulatorSetupError" in done.stderr
    assert sorted(path.name for path in cache.iterdir()) == ["0123456789", "lock"]
