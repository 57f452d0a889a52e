"""What a project's build files say of a source, from wherever the project is looked at."""

import pytest

from astra_kernels.extraction.project import Project, Release


@pytest.mark.parametrize(
    ("root", "source"),
    [("", "kernels/csrc/norm.cu"), ("kernels", "csrc/norm.cu"), ("kernels/csrc", "norm.cu")],
)
def test_flags_are_those_of_the_build_files_above_the_source(tmp_path, root, source):
    (tmp_path / "kernels/csrc").mkdir(parents=True)
    (tmp_path / "kernels/csrc/norm.cu").write_text("")
    (tmp_path / "other").mkdir()
    (tmp_path / "kernels/CMakeLists.txt").write_text('set(FLAGS "-DNDEBUG" "-use_fast_math")\n')
    (tmp_path / "other/CMakeLists.txt").write_text('set(FLAGS "-DOTHER")\n')
    flags = Project(tmp_path / root, Release("engine")).flags(source)
    assert set(flags) == {"-DNDEBUG", "-use_fast_math"}
