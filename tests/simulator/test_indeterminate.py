"""`discard`, and what is written by other ways than a store: printf's arguments, parameters of calls."""

import numpy as np
import pytest

from astra_kernels.simulator import FaultKind, SimulatorOptions
from tests.simulator.handwritten import module_of, run

OF_THREAD = """
  ld.param.u64 %rd1, [p0];
  mov.u32 %r1, %tid.x;
  mul.wide.u32 %rd2, %r1, 4;
  add.u64 %rd2, %rd1, %rd2;
"""
DISCARDED = f"""{OF_THREAD}
  st.global.u32 [%rd2], 7;
  bar.sync 0;
  setp.ne.u32 %p1, %r1, 0;
  @!%p1 discard{{space}}.L2 [%rd1+128], 128;
  bar.sync 0;
{{after}}
"""
CHECKED = SimulatorOptions(threads=1, checks=True)


def discarded(after="", *, options=None, space=".global"):
    y = np.zeros(96, np.uint32)
    launch = run(
        module_of(DISCARDED.format(after=after, space=space)), y, threads=96, options=options
    )
    return launch, y


@pytest.mark.parametrize("space", [".global", ""])
@pytest.mark.parametrize("options", [None, CHECKED])
def test_a_discarded_line_holds_anything(options, space):
    launch, y = discarded(options=options, space=space)
    assert launch.fault is None
    assert (y[:32] == 7).all()
    assert (y[64:] == 7).all()
    assert (y[32:64] != 7).all()
    assert len(set(y[32:64])) > 16
    assert (y == discarded(options=options, space=space)[1]).all(), "the same in every run"


READ = "  ld.global.u32 %r2, [%rd2];\n  st.global.u32 [%rd2], %r2;"


def test_a_discarded_line_is_unwritten_for_the_checks():
    launch, _ = discarded(READ, options=CHECKED)
    assert launch.fault.kind == FaultKind.GLOBAL_UNWRITTEN
    assert launch.fault.thread == (32, 0, 0)
    launch, y = discarded("  st.global.u32 [%rd2], 9;" + READ, options=CHECKED)
    assert launch.fault is None
    assert (y == 9).all()


def test_a_discard_is_a_write_that_something_must_order():
    text = DISCARDED.replace("  bar.sync 0;\n  setp", "  setp").format(after="", space=".global")
    y = np.zeros(96, np.uint32)
    launch = run(module_of(text), y, threads=96, options=CHECKED)
    assert launch.fault.kind == FaultKind.GLOBAL_RACE


@pytest.mark.parametrize(
    ("offset", "kind"), [(384, FaultKind.GLOBAL_BOUNDS), (64, FaultKind.GLOBAL_MISALIGNED)]
)
def test_a_discard_stays_inside(offset, kind):
    y = np.zeros(96, np.uint32)
    body = f"  ld.param.u64 %rd1, [p0];\n  discard.global.L2 [%rd1+{offset}], 128;"
    assert run(module_of(body), y).fault.kind == kind


PRINT = """
  .local .align 8 .b8 depot[16];
  .reg .b64 %SP;
"""
FORMAT = ".global .align 1 .b8 text[8] = {110, 32, 37, 100, 10, 0, 0, 0};\n"
EXTERN = ".extern .func (.param .b32 r) vprintf (.param .b64 a, .param .b64 b);\n"
PRINTS = """
  mov.u64 %rd5, depot;
  cvta.local.u64 %rd6, %rd5;
  st.local.u32 [%rd5], 42;
  mov.u64 %rd7, text;
  cvta.global.u64 %rd8, %rd7;
  {
  .param .b64 param0;
  st.param.b64 [param0], %rd8;
  .param .b64 param1;
  st.param.b64 [param1], %rd6;
  .param .b32 retval0;
  call.uni (retval0), vprintf, (param0, param1);
  ld.param.b32 %r9, [retval0];
  }
"""


@pytest.mark.parametrize("order", [0, 1, 2])
def test_a_checked_kernel_may_print(order, capfd):
    text = module_of(PRINTS, declarations=PRINT, functions=EXTERN + FORMAT)
    options = SimulatorOptions(threads=1, checks=True, order=order)
    launch = run(text, np.zeros(1, np.uint64), threads=32, options=options)
    assert launch.fault is None
    assert capfd.readouterr().out == "n 42\n" * 32


ADDRESSED = """
.func (.param .b32 out) second (.param .align 4 .b8 in[8])
{
  .reg .b64 %a<3>;
  .reg .b32 %x<2>;
  mov.b64 %a1, in;
  cvta.local.u64 %a2, %a1;
  ld.b32 %x1, [%a2+4];
  st.param.b32 [out], %x1;
  ret;
}
"""
CALLS = """
  ld.param.u64 %rd1, [p0];
  {
  .param .align 4 .b8 param0[8];
  st.param.b32 [param0], 1;
  st.param.b32 [param0+4], 5;
  .param .b32 retval0;
  call.uni (retval0), second, (param0);
  ld.param.b32 %r9, [retval0];
  }
  st.global.u32 [%rd1], %r9;
"""


def test_a_parameter_whose_address_is_taken_is_written():
    y = np.zeros(1, np.uint64)
    launch = run(module_of(CALLS, functions=ADDRESSED), y, options=CHECKED)
    assert (launch.fault, int(y[0])) == (None, 5)


@pytest.mark.parametrize(("declared", "dynamic"), [(0, 0), (4, 0), (128, 1), (132, 124)])
def test_the_size_of_shared_memory_is_given_in_units_of_its_allocation(declared, dynamic):
    body = (
        "  ld.param.u64 %rd1, [p0];\n  mov.u32 %r1, %total_smem_size;\n"
        "  mov.u32 %r2, %dynamic_smem_size;\n  st.global.v2.u32 [%rd1], {%r1, %r2};"
    )
    if declared:
        body += "\n  mov.u32 %r3, mine;\n  st.shared.u32 [%r3], 0;"
    text = module_of(
        body, declarations=f"  .shared .align 4 .b8 mine[{declared}];" * bool(declared)
    )
    y = np.zeros(2, np.uint32)
    assert run(text, y, shared=dynamic).fault is None
    assert y.tolist() == [-(-(declared + dynamic) // 128) * 128, dynamic]
