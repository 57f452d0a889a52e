"""Whole jobs with the real compiler on the simulated device: every way in which a candidate can end."""

import dataclasses
import json
import subprocess
import sys

import pytest

from astra_kernels.errors import ProblemError, UserError
from astra_kernels.jobs.__main__ import main
from astra_kernels.jobs.run_job import run_job
from astra_kernels.jobs.spec import RESULT_FILE, InputSpec, Limits, TensorSpec
from astra_kernels.records.evaluation import Modelled, Passed
from tests.tiers import with_sample

from .staging import FAST, REFERENCE, SILU, stage, workload

STORE = "out[row * hidden + i] ="
LAUNCH = "// before the launch"


def edited(old, new, text=SILU):
    assert old in text
    return text.replace(old, new)


def host(statement):
    return edited(LAUNCH, statement)


@pytest.fixture(scope="module")
def outcome(tmp_path_factory, toolchain, build_cache):
    job = stage(tmp_path_factory.mktemp("passed") / "job", FAST)
    outcome = run_job(job, toolchain=toolchain, cache_dir=build_cache)
    written = json.loads((job / RESULT_FILE).read_text())
    assert written == json.loads(json.dumps(dataclasses.asdict(outcome)))
    return outcome


class TestPassed:
    def test_every_workload_has_its_accuracy_beside_the_baselines(self, outcome):
        assert isinstance(outcome, Passed)
        assert [row.uuid for row in outcome.workloads] == ["even", "odd"]
        for row in outcome.workloads:
            assert row.checked
            assert 0 < row.accuracy[0].rms_ulp < 0.5
            assert 0 < row.baseline_accuracy[0].rms_ulp < 0.5
            assert row.accuracy[0].elements == row.axes["tokens"] * row.axes["hidden"]

    def test_time_is_modelled_and_says_so(self, outcome):
        assert isinstance(outcome.workloads[0].timing, Modelled)
        assert outcome.workloads[1].timing is None
        assert isinstance(outcome.geomean, Modelled)
        assert outcome.geomean.gain == pytest.approx(outcome.workloads[0].timing.gain)

    def test_profiles_count_what_the_kernel_does(self, outcome):
        (profile,) = outcome.workloads[0].profiles
        assert profile.source == "simulated"
        assert (profile.grid, profile.block) == ((4, 1, 1), (128, 1, 1))
        # a warp reads 32 halves, two sectors, at a time: 4 rows of 512 halves
        assert profile.metrics["l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum"] == 4 * 512 * 2 / 32
        assert profile.metrics["dram__bytes_read.sum"] == 4 * 512 * 2

    def test_facts(self, outcome):
        assert outcome.device == "sim:h200"
        assert outcome.oracle == "reference_fp64"
        assert outcome.resources[0].registers > 0
        assert sum(next(iter(outcome.sass_mix.values())).values()) > 20
        assert {"python", "numpy", "nvcc", "device_name"} <= outcome.environment.keys()
        assert outcome.sandbox
        assert outcome.wall_s > 0


def test_the_baseline_alone(judge_job):
    outcome = judge_job(None)
    assert isinstance(outcome, Passed)
    assert outcome.geomean.gain == 1
    assert outcome.workloads[0].accuracy == outcome.workloads[0].baseline_accuracy


def test_a_known_baseline_is_not_built_again(judge_job):
    first = judge_job(None)
    known = [
        dataclasses.replace(
            w,
            baseline_accuracy=row.accuracy,
            baseline_modelled_us=row.timing.candidate_us if row.timing else None,
        )
        for w, row in zip(
            (workload("even", 4, 256), workload("odd", 3, 129, timed=False)),
            first.workloads,
            strict=True,
        )
    ]
    outcome = judge_job(FAST, "this does not compile", workloads=known)
    assert isinstance(outcome, Passed)
    assert outcome.workloads[0].baseline_accuracy == first.workloads[0].accuracy
    assert outcome.geomean.baseline_us == pytest.approx(first.geomean.candidate_us)


def test_a_known_baseline_is_built_to_see_whether_it_does_the_same(judge_job):
    """Alone it is admitted with a finding; an import that it has too rejects no candidate."""
    asks = 'if (getenv("NO_SUCH_VARIABLE")) return 1;'
    first = judge_job(None, host(asks))
    assert isinstance(first, Passed)
    assert any("getenv" in finding for finding in first.findings)
    row = first.workloads[0]
    known = (
        workload(
            "even",
            4,
            256,
            baseline_accuracy=row.accuracy,
            baseline_modelled_us=row.timing.candidate_us,
        ),
    )
    assert isinstance(judge_job(host(asks), host(asks), workloads=known), Passed)
    assert judge_job(host(asks), SILU, workloads=known).outcome == "rejected"


def test_large_workloads_are_sampled_and_say_so(judge_job):
    limits = Limits(checked_elements=10_000)
    shapes = (workload("small", 4, 256, timed=False), workload("large", 512, 1024))
    outcome = judge_job(workloads=shapes, limits=limits)
    _, row = outcome.workloads
    assert not row.checked
    assert "sample" in row.note
    assert row.accuracy == ()
    assert row.timing.sampled
    assert row.profiles[0].sampled_blocks == (64, 512)


class TestRefused:
    def test_compiler_errors(self, judge_job):
        outcome = judge_job(edited("float gate =", "float gate = nonsense +"))
        assert outcome.outcome == "build_failed"
        (message,) = [m for m in outcome.messages if m.severity == "error"]
        assert (message.file, message.line) == ("silu.cu", 9)
        assert "nonsense" in message.message

    def test_another_entry_point(self, judge_job):
        outcome = judge_job(edited('extern "C" int silu_and_mul', 'extern "C" int other'))
        assert outcome.outcome == "build_failed"
        assert "silu_and_mul" in outcome.messages[0].message

    @pytest.mark.parametrize("call", ['setenv("A", "B", 1);', 'system("true");'])
    def test_symbols_that_no_launcher_needs(self, judge_job, call):
        outcome = judge_job(host(call))
        assert outcome.outcome == "rejected"
        assert call[:4] in outcome.detail

    def test_what_is_not_simulated_is_said(self, judge_job):
        surface = 'asm volatile("{.reg .u64 t; mov.u64 t, %clock64; mapa.u64 t, t, 0;}");'
        outcome = judge_job(edited(STORE, f"{surface}\n    {STORE}"))
        assert (outcome.outcome, outcome.rule) == ("rejected", "not_simulated")
        assert "/" not in outcome.detail, "no place of this machine"
        assert "mapa" in outcome.detail


class TestCrashed:
    @pytest.mark.parametrize(
        ("statement", "said"),
        with_sample(
            [
                ("*static_cast<volatile int*>(nullptr) = 1;", "SIGSEGV"),
                ("abort();", "SIGABRT"),
                ("__builtin_trap();", "SIG"),
            ],
            0,
        ),
    )
    def test_host_code(self, judge_job, statement, said):
        outcome = judge_job(host(statement))
        assert (outcome.outcome, outcome.stage, outcome.workload) == (
            "crashed",
            "correctness",
            "even",
        )
        assert said in outcome.detail

    def test_an_error_code(self, judge_job):
        outcome = judge_job(edited("return cudaGetLastError();", "return 7;"))
        assert outcome.outcome == "crashed"
        assert "returned 7" in outcome.detail

    def test_an_impossible_launch(self, judge_job):
        outcome = judge_job(edited("128, 0, stream", "4096, 0, stream"))
        assert outcome.outcome == "crashed"


class TestTimedOut:
    def test_host_code(self, judge_job):
        loop = host("volatile int forever = 1; while (forever) {}")
        outcome = judge_job(loop, limits=Limits(correctness_s=3))
        assert (outcome.outcome, outcome.stage, outcome.workload) == (
            "timed_out",
            "correctness",
            "even",
        )
        assert outcome.limit_s == 3

    def test_a_kernel(self, judge_job):
        loop = edited(STORE, "for (volatile int forever = 1; forever;) {}\n    " + STORE)
        outcome = judge_job(loop, limits=Limits(correctness_s=30))
        assert outcome.outcome == "timed_out"


class TestUnsafe:
    @pytest.mark.parametrize(
        ("old", "new"),
        [
            (STORE, "out[row * hidden + i + (row + 1 == gridDim.x)] ="),
            ("in[row * 2 * hidden + i]", "in[row * 2 * hidden + i - (row == 0)]"),
        ],
    )
    def test_one_element_out_of_bounds(self, judge_job, old, new):
        outcome = judge_job(edited(old, new))
        assert (outcome.outcome, outcome.kind) == ("unsafe", "global_bounds")
        assert outcome.workload == "even"
        assert outcome.block is not None
        assert outcome.thread is not None
        assert outcome.line in (8, 10)
        assert outcome.file == "silu.cu"


class TestIncorrect:
    def test_wrong_values(self, judge_job):
        outcome = judge_job(edited("1.0f +", "1.01f +"))
        assert (outcome.outcome, outcome.workload, outcome.output) == ("incorrect", "even", "out")
        assert len(outcome.index) == 2
        assert float(outcome.expected) != float(outcome.got)
        assert "ulp" in outcome.rule

    def test_wrong_only_at_odd_sizes(self, judge_job):
        outcome = judge_job(edited("i < hidden;", "i < hidden / 2 * 2;"))
        assert (outcome.outcome, outcome.workload) == ("incorrect", "odd")
        assert outcome.index[1] == 128
        assert "3 of 387 elements were never written" in outcome.rule

    def test_nothing_written(self, judge_job):
        outcome = judge_job(edited("i < hidden;", "i < 0;"))
        assert "1024 of 1024 elements were never written" in outcome.rule

    def test_an_input_is_overwritten(self, judge_job):
        write = "const_cast<__half*>(in)[row * 2 * hidden + i] = __float2half(x);\n    " + STORE
        outcome = judge_job(edited(STORE, write.replace("(x)", "(x + 1)")))
        assert (outcome.outcome, outcome.output) == ("incorrect", "input")
        assert "overwritten" in outcome.rule

    def test_less_precise_than_the_baseline(self, judge_job):
        outcome = judge_job(
            edited(
                "x / (1.0f + expf(-x)) * gate",
                "__half2float(__float2half(x / (1.0f + expf(-x)))) * gate",
            )
        )
        assert outcome.outcome == "incorrect"
        assert "RMS" in outcome.rule or "largest error" in outcome.rule


class TestBaselineThatFails:
    def test_alone_it_gets_an_ordinary_outcome(self, judge_job):
        assert judge_job(None, edited("1.0f +", "2.0f +")).outcome == "incorrect"
        assert judge_job(None, host("abort();")).outcome == "crashed"

    def test_beside_a_candidate_it_is_the_problems_fault(self, judge_job):
        with pytest.raises(ProblemError, match="baseline is incorrect on workload even"):
            judge_job(FAST, edited("1.0f +", "2.0f +"))
        with pytest.raises(ProblemError, match="baseline does not build"):
            judge_job(FAST, "nonsense")


class TestJobsThatCannotRun:
    def test_an_unknown_device(self, judge_job):
        with pytest.raises(UserError, match="sim:h200"):
            judge_job(device="sim:gtx280")
        with pytest.raises(UserError, match="unknown device"):
            judge_job(device="tpu")

    def test_a_reference_that_raises(self, judge_job):
        with pytest.raises(UserError, match=r"reference\.py:\d+: .*RuntimeError: not today"):
            judge_job(
                reference=REFERENCE.replace(
                    "    return x / (1", "    raise RuntimeError('not today')\n    return x / (1"
                )
            )

    def test_the_command_line_tells_them_apart(self, tmp_path, toolchain, build_cache, capsys):
        good = stage(tmp_path / "good", None)
        assert main([str(good), "--cache", str(build_cache)]) == 0
        assert "passed" in capsys.readouterr().out
        (tmp_path / "bad").mkdir()
        assert main([str(tmp_path / "bad")]) == 2
        (tmp_path / "bad" / "job.json").write_text('{"schema_version": 99}')
        assert main([str(tmp_path / "bad")]) == 2
        assert "schema_version" in capsys.readouterr().err


IN_PLACE = """\
__global__ void scale(float* x, float factor, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) x[i] *= factor;
}
extern "C" int silu_and_mul(void* x, float factor, int n, void* workspace, cudaStream_t stream) {
  if (workspace == nullptr) return 1;
  if (n > 0) scale<<<(n + 255) / 256, 256, 0, stream>>>(static_cast<float*>(x), factor, n);
  return cudaGetLastError();
}
"""


def test_in_place_outputs_scalars_workspace_and_empty_tensors(judge_job):
    from astra_kernels.jobs.spec import ArgumentSpec

    reference = "def run(x, factor):\n    return x * factor\n"
    sources = {
        "x": InputSpec(type="random", distribution="uniform"),
        "factor": InputSpec(type="scalar", value=0.1),
    }
    fields = {"inputs": sources, "workspace_bytes": 100}
    outcome = judge_job(
        None,
        IN_PLACE,
        reference=reference,
        arguments=(
            ArgumentSpec(name="x", kind="input", ctype="pointer"),
            ArgumentSpec(name="factor", kind="scalar", ctype="float32"),
            ArgumentSpec(name="hidden", kind="axis", ctype="int32"),
            ArgumentSpec(name="workspace", kind="workspace", ctype="pointer"),
            ArgumentSpec(name="stream", kind="stream", ctype="stream"),
        ),
        inputs=(
            TensorSpec(name="x", dtype="float32", shape=("hidden",)),
            TensorSpec(name="factor", dtype="float32", shape=None),
        ),
        outputs=(TensorSpec(name="y", dtype="float32", shape=("hidden",), in_place_of="x"),),
        workloads=(
            workload("some", 1, 1000, **fields),
            workload("none", 1, 0, timed=False, **fields),
        ),
    )
    assert isinstance(outcome, Passed)
    assert outcome.oracle == "reference on float64 inputs"
    assert outcome.workloads[0].accuracy[0].max_ulp <= 0.5


FULL_DISK = """
import os, resource, sys
from pathlib import Path
from astra_kernels.errors import MachineFault
from astra_kernels.jobs.run_job import run_job
from astra_kernels.languages.cuda.toolchain import find_toolchain
toolchain, size = find_toolchain(os.environ), int(sys.argv[3])
resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))
try:
    run_job(Path(sys.argv[1]), toolchain=toolchain, cache_dir=Path(sys.argv[2]))
except MachineFault:
    sys.exit(0)
sys.exit("no machine fault")
"""


@pytest.mark.parametrize("size", [0, 2500])
def test_a_full_disk_is_the_machines_fault(tmp_path, toolchain, build_cache, size):
    """A limit on file sizes stands in for a full disk; in a process of its own, since it holds for all files."""
    job = stage(tmp_path / "job", None, workloads=(workload("tiny", 1, 8),))
    run_job(job, toolchain=toolchain, cache_dir=build_cache)  # so that the build is there already
    (job / RESULT_FILE).unlink()
    command = [sys.executable, "-c", FULL_DISK, str(job), str(build_cache), str(size)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert sorted(p.name for p in job.iterdir()) == ["baseline", "job.json", "reference.py"]


def test_a_kernel_that_only_unchecked_workloads_run_has_no_time(judge_job):
    """Its outputs were never judged, so what it gains is nothing."""
    other = SILU.replace("silu(", "silu_of_many(").split("__global__")[1].split('extern "C"')[0]
    launch = "  silu<<<static_cast<unsigned>(tokens), 128, 0, stream>>>("
    many = SILU.replace('extern "C"', f'__global__ {other}\nextern "C"').replace(
        launch,
        "  (tokens < 300 ? silu : silu_of_many)"
        "<<<static_cast<unsigned>(tokens), 128, 0, stream>>>(",
    )
    assert many.count("silu_of_many") == 2
    limits = Limits(checked_elements=100_000)
    shapes = (workload("small", 4, 256), workload("many", 300, 512))
    outcome = judge_job(many, workloads=shapes, limits=limits)
    assert outcome.outcome == "passed"
    small, large = (w.timing for w in outcome.workloads)
    assert small.kind == "modelled"
    assert "ran on no workload that was checked" in large.reason
    assert outcome.geomean.kind == "not_established"
