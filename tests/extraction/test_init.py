"""Problems from one file."""

import pytest

from astra_kernels.errors import UserError
from astra_kernels.extraction.init import Beginning, init
from astra_kernels.importers.problem_dir import load_problem

SCALE = """\
__global__ void scale_kernel(const float* x, float* y, float a, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] = a * x[i];
}
"""
ROW_SUM = """\
template <typename T>
__global__ void row_sum_kernel(const T* __restrict__ x, float* __restrict__ out, int rows, int cols) {
  __shared__ float part[256];
  float sum = 0.0f;
  for (int i = threadIdx.x; i < cols; i += blockDim.x) sum += static_cast<float>(x[blockIdx.x * (long long)cols + i]);
  part[threadIdx.x] = sum;
  __syncthreads();
  for (int width = 128; width > 0; width /= 2) {
    if (threadIdx.x < width) part[threadIdx.x] += part[threadIdx.x + width];
    __syncthreads();
  }
  if (threadIdx.x == 0) out[blockIdx.x] = part[0];
}
"""
LAUNCHER = """
extern "C" int scale(const void* x, void* y, float a, int n, cudaStream_t stream) {
  scale_kernel<<<(n + 127) / 128, 128, 0, stream>>>(static_cast<const float*>(x), static_cast<float*>(y), a, n);
  return cudaGetLastError();
}
"""


@pytest.fixture
def begun(tmp_path, build_cache):
    def begin(text, *, check=True, **changes):
        source = tmp_path / "kernel.cu"
        source.write_text(text)
        cache = build_cache if check else None
        return init(Beginning(source, tmp_path / "made", cache=cache, **changes))

    return begin


def test_a_kernel_gets_a_launcher_whose_grid_is_said_to_be_guessed(begun):
    made = begun(SCALE)
    assert made.trial.passed and made.own_oracle
    assert any("guessed" in note for note in made.notes)
    problem = load_problem(made.directory)
    assert problem.spec.entry_symbol == "scale_kernel_entry"
    assert "NotImplementedError" in (made.directory / "reference.py").read_text()


def test_what_is_taken_to_be_changed_in_place_is_said(begun):
    in_place = begun(
        SCALE.replace("float* y,", "float* probs,").replace("y[i]", "probs[i]"), check=False
    )
    assert "taken to be changed in place, by their names: probs" in in_place.notes


def test_an_output_by_its_name_is_not_said_to_be_changed_in_place(begun):
    assert not any("in place" in note for note in begun(SCALE, check=False).notes)


@pytest.mark.full
def test_a_launcher_is_called_as_it_is(begun):
    made = begun(SCALE + LAUNCHER)
    assert made.trial.passed
    problem = load_problem(made.directory)
    assert problem.spec.entry_symbol == "scale"
    assert problem.baseline.sources["kernel.cu"] == SCALE + LAUNCHER
    assert problem.definition.inputs["x"].dtype == "float32"
    assert list(problem.definition.outputs) == ["y"]


@pytest.mark.full
def test_shapes_that_do_not_fit_are_tried_until_one_does(begun):
    made = begun(ROW_SUM)
    assert made.trial.passed, made.trial.said
    definition = load_problem(made.directory).definition
    assert definition.outputs["out"].shape == ("rows",)
    assert definition.inputs["x"].shape == ("rows", "cols")


def test_several_entry_points_are_listed(begun):
    with pytest.raises(UserError, match="choose one with --entry NAME") as caught:
        begun(SCALE + ROW_SUM, check=False)
    assert "row_sum_kernel" in str(caught.value) and "scale_kernel" in str(caught.value)
    assert begun(SCALE + ROW_SUM, check=False, entry="scale_kernel").directory.is_dir()


def test_nothing_to_call(begun, tmp_path):
    with pytest.raises(UserError, match="no launcher and no __global__ kernel"):
        begun("int x;\n", check=False)
    assert not (tmp_path / "made").exists()
