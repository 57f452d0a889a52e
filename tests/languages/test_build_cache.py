"""Equal requests are answered from the cache, damaged entries are rebuilt, several may build at once."""

import dataclasses
import subprocess
import threading
from pathlib import Path

import pytest

from astra_kernels.errors import MachineFault
from astra_kernels.languages.cuda.build import build
from astra_kernels.languages.cuda.cache import cache_key
from astra_kernels.languages.cuda.outcome import Built
from astra_kernels.languages.cuda.request import BuildRequest

TINY = 'extern "C" int answer() { return 42; }\n'


@pytest.fixture
def request_():
    return BuildRequest(sources={"answer.cpp": TINY}, entry_symbols=("answer",))


def test_second_build_comes_from_the_cache(request_, toolchain, tmp_path):
    first = build(request_, toolchain, tmp_path)
    second = build(request_, toolchain, tmp_path)
    assert (first.cached, second.cached) == (False, True)
    assert dataclasses.replace(second, cached=False) == first
    assert list((tmp_path / "in-progress").iterdir()) == []


@pytest.mark.parametrize("damage", ["library", "record", "gone"])
def test_damaged_entry_is_rebuilt(request_, toolchain, tmp_path, damage):
    first = build(request_, toolchain, tmp_path)
    record = first.library.with_name("built.json")
    if damage == "library":
        first.library.write_bytes(first.library.read_bytes()[:-1] + b"?")
    elif damage == "record":
        record.write_text("{")
    else:
        first.library.unlink()
    again = build(request_, toolchain, tmp_path)
    assert not again.cached
    assert build(request_, toolchain, tmp_path).cached


def test_many_builders_at_once_agree(request_, toolchain, tmp_path):
    results = []
    threads = [
        threading.Thread(target=lambda: results.append(build(request_, toolchain, tmp_path)))
        for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(results) == 4 and all(isinstance(one, Built) for one in results)
    assert len({(one.library, one.digest) for one in results}) == 1


def test_key_depends_on_everything_that_matters(request_, toolchain, tmp_path):
    headers = tmp_path / "headers"
    headers.mkdir()
    with_headers = dataclasses.replace(request_, include_dirs=(headers,))
    host = dataclasses.replace(toolchain.host, version="99")
    keys = [
        cache_key(request_, toolchain),
        cache_key(dataclasses.replace(request_, sources={"answer.cpp": TINY + " "}), toolchain),
        cache_key(dataclasses.replace(request_, sources={"other.cpp": TINY}), toolchain),
        cache_key(dataclasses.replace(request_, flags=("-O1",)), toolchain),
        cache_key(dataclasses.replace(request_, arch="sm_80"), toolchain),
        cache_key(request_, dataclasses.replace(toolchain, version="99.0.0")),
        cache_key(request_, dataclasses.replace(toolchain, host=host)),
        cache_key(with_headers, toolchain),
    ]
    (headers / "new.h").write_text("")
    keys.append(cache_key(with_headers, toolchain))
    assert len(set(keys)) == len(keys)


@pytest.mark.parametrize("read_only", [False, True])
def test_unusable_cache_directory_is_a_machine_fault(request_, toolchain, tmp_path, read_only):
    (tmp_path / "file").write_text("")
    directory = Path("/proc/cache") if read_only else tmp_path / "file" / "cache"
    with pytest.raises(MachineFault, match=f"the build cache {directory} cannot be written"):
        build(request_, toolchain, directory)


def test_full_disk_is_a_machine_fault(request_, toolchain, tmp_path):
    """On a file system of half a megabyte, which only root can mount."""
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=600k", "tmpfs", tmp_path],
        capture_output=True,
        check=False,
    )
    if mounted.returncode != 0:
        pytest.skip("a small file system cannot be mounted here")
    try:
        (tmp_path / "ballast").write_bytes(bytes(580 * 1024))
        with pytest.raises(MachineFault, match=r"is full|No space left"):
            build(request_, toolchain, tmp_path / "cache")
    finally:
        subprocess.run(["umount", tmp_path], check=True)
