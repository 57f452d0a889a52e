"""Inputs: every element type with every distribution, and where else values may come from."""

import dataclasses

import numpy as np
import pytest

from astra_kernels.errors import UserError
from astra_kernels.jobs.elements import FLOAT_FORMATS, numpy_dtype
from astra_kernels.jobs.inputs import InputSource, draw, round_scalar
from astra_kernels.jobs.reference import Reference
from astra_kernels.jobs.spec import InputSpec, TensorSpec
from astra_kernels.records.dtypes import DTYPES, is_floating

from .staging import silu_spec, workload

DISTRIBUTIONS = (
    *("normal", "uniform", "zeros", "ones", "large", "small", "denormal"),
    *("infinities", "nans", "ties", "sorted", "constant_rows", "scaled_rows", "extremes"),
)


def generator(seed=1):
    return np.random.Generator(np.random.PCG64(seed))


def wide(values):
    return values.astype(np.float64)


@pytest.mark.parametrize("distribution", [None, *DISTRIBUTIONS])
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(), (0, 5), (1,), (33, 65)])
def test_every_type_has_every_distribution(dtype, distribution, shape):
    values = draw(generator(), dtype, shape, distribution)
    assert (values.shape, values.dtype) == (shape, numpy_dtype(dtype))
    if distribution not in ("infinities", "nans", "extremes"):
        assert np.isfinite(wide(values)).all()
    again = draw(generator(), dtype, shape, distribution)
    assert values.tobytes() == again.tobytes()


@pytest.mark.parametrize("dtype", [d for d in DTYPES if is_floating(d)])
class TestFloats:
    def test_normal_has_unit_variance(self, dtype):
        assert wide(draw(generator(), dtype, (20000,), "normal")).std() == pytest.approx(
            1, abs=0.05
        )

    def test_large_is_near_the_limit(self, dtype):
        values = np.abs(wide(draw(generator(), dtype, (1000,), "large")))
        largest = FLOAT_FORMATS[dtype].largest
        assert values.max() > largest / 2
        assert values.min() >= largest / 20

    def test_small_is_near_the_smallest_normal(self, dtype):
        values = np.abs(wide(draw(generator(), dtype, (1000,), "small")))
        assert values.max() <= 16 * FLOAT_FORMATS[dtype].smallest_normal

    def test_denormal_mixes_subnormals_in(self, dtype):
        values = np.abs(wide(draw(generator(), dtype, (1000,), "denormal")))
        below = values < FLOAT_FORMATS[dtype].smallest_normal
        assert 300 < np.count_nonzero(below & (values > 0)) < 700

    def test_infinities_are_few(self, dtype):
        values = wide(draw(generator(), dtype, (5000,), "infinities"))
        extreme = np.isinf(values) | (np.abs(values) == FLOAT_FORMATS[dtype].largest)
        assert 1 <= np.count_nonzero(extreme) <= 5


def test_unsigned_bytes_reach_their_ends_and_small_ones_stay_small():
    def drawn(distribution):
        return draw(np.random.default_rng(3), "uint8", (200, 100), distribution)

    assert drawn(None).min() == 0 and drawn(None).max() == 255
    assert drawn("large").min() >= 240
    assert 1 < drawn("normal").max() < 40


def test_sorted_and_constant_rows():
    rows = draw(generator(), "float32", (7, 50), "sorted")
    assert (np.diff(rows, axis=-1) >= 0).all()
    constant = draw(generator(), "int16", (7, 50), "constant_rows")
    assert (constant == constant[:, :1]).all()
    assert np.unique(constant[:, 0]).size > 1


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
def test_in_some_scaled_rows_an_epsilon_decides(dtype):
    squares = (wide(draw(generator(), dtype, (200, 64), "scaled_rows")) ** 2).mean(axis=1)
    assert (squares < 1e-6).mean() > 0.2
    assert (squares > 1e-2).mean() > 0.2


def test_extremes_meet_and_go_to_minus_infinity():
    one, other = (wide(draw(generator(s), "float32", (2000,), "extremes")) for s in (1, 2))
    assert 0.05 < np.isneginf(one).mean() < 0.25
    assert not np.isposinf(one).any()
    assert (one == other).mean() > 0.1
    assert (np.isneginf(one) & np.isneginf(other)).any()


def test_an_unknown_distribution_names_the_known_ones():
    with pytest.raises(UserError, match="constant_rows"):
        draw(generator(), "float32", (1,), "cauchy")


def test_a_scalar_that_its_type_cannot_hold_is_refused(tmp_path):
    spec = silu_spec()
    scale = TensorSpec(name="scale", dtype="float32", shape=None)
    spec = dataclasses.replace(spec, inputs=(*spec.inputs, scale))
    source = InputSpec(type="scalar", value=1e308)
    shape = workload("w", 2, 8, inputs={"input": InputSpec(type="random"), "scale": source})
    with pytest.raises(UserError, match="'scale' is 1e\\+308"):
        InputSource(spec, tmp_path).make(shape)


def test_scalars_are_rounded_to_their_type():
    assert round_scalar(1e-6, "float32") == float(np.float32(1e-6))
    assert round_scalar(0.1, "bfloat16") == 0.10009765625
    assert round_scalar(1, "bool") is True
    assert round_scalar(3.0, "int32") == 3


class TestSources:
    @pytest.fixture
    def reference(self, tmp_path):
        path = tmp_path / "reference.py"
        path.write_text(
            "import numpy as np\n"
            "def run(input):\n    return input\n"
            "def make(axes_and_scalars, device):\n"
            "    shape = (axes_and_scalars['tokens'], axes_and_scalars['two_hidden'])\n"
            "    return {'input': np.full(shape, np.random.rand(), np.float16)}\n"
            "def rare(axes_and_scalars, device):\n"
            "    made = make(axes_and_scalars, device)\n"
            "    made['input'][0, 0] = -np.inf\n    made['input'][0, 1] = 9\n    return made\n"
            "def wrong(axes_and_scalars, device):\n    return {'input': np.zeros(3, np.float16)}\n"
        )
        return Reference(path)

    def make(self, spec, source, reference, job_dir):
        chosen = workload("w", 3, 8, inputs={"input": source})
        return InputSource(spec, job_dir, reference).make(chosen)["input"]

    def test_seeds_and_names_decide(self, reference, tmp_path):
        spec = silu_spec()
        first = InputSource(spec, tmp_path, reference).make(workload("a", 3, 8, seed=1))["input"]
        same = InputSource(spec, tmp_path, reference).make(workload("b", 3, 8, seed=1))["input"]
        other = InputSource(spec, tmp_path, reference).make(workload("a", 3, 8, seed=2))["input"]
        assert np.array_equal(first, same)
        assert not np.array_equal(first, other)

    def test_safetensors(self, reference, tmp_path):
        from safetensors.numpy import save_file

        (tmp_path / "data").mkdir()
        stored = np.arange(48, dtype=np.float16).reshape(3, 16)
        save_file({"x": stored}, tmp_path / "data" / "file.safetensors")
        source = InputSpec(type="safetensors", path="file.safetensors", tensor_key="x")
        assert np.array_equal(self.make(silu_spec(), source, reference, tmp_path), stored)
        for broken in (
            InputSpec(type="safetensors", path="file.safetensors", tensor_key="y"),
            InputSpec(type="safetensors", path="../reference.py", tensor_key="x"),
        ):
            with pytest.raises(UserError, match="input"):
                self.make(silu_spec(), broken, reference, tmp_path)

    def test_custom_functions_are_seeded(self, reference, tmp_path):
        spec = silu_spec(custom_inputs_entrypoint="make")
        custom = InputSpec(type="custom")
        first = self.make(spec, custom, reference, tmp_path)
        assert np.array_equal(first, self.make(spec, custom, reference, tmp_path))

    def test_what_is_rare_in_custom_inputs_is_made_common(self, reference, tmp_path):
        common = InputSpec(type="custom", distribution="extremes")
        spec = silu_spec(custom_inputs_entrypoint="rare")
        once = self.make(spec, InputSpec(type="custom"), reference, tmp_path)
        often = self.make(spec, common, reference, tmp_path)
        assert np.isneginf(once).sum() == 1
        assert np.isneginf(often).sum() > 3
        assert set(np.unique(often)) <= set(np.unique(once)), "only values that the function makes"
        finite = silu_spec(custom_inputs_entrypoint="make")
        left = self.make(finite, common, reference, tmp_path)
        assert np.array_equal(
            left, self.make(finite, InputSpec(type="custom"), reference, tmp_path)
        )

    def test_a_custom_function_must_fit(self, reference, tmp_path):
        spec = silu_spec(custom_inputs_entrypoint="wrong")
        with pytest.raises(UserError, match=r"wrong is float16 \(3,\)"):
            self.make(spec, InputSpec(type="custom"), reference, tmp_path)
