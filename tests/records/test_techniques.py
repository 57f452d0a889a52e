"""Techniques that opcodes prove; the opcodes are real ones of sm_90."""

import pytest

from astra_kernels.records.techniques import proven


@pytest.mark.parametrize(
    ("opcodes", "names"),
    [
        (
            ("LDG.E.128.CONSTANT", "STG.E.128"),
            ("16-byte loads", "16-byte stores", "read-only loads"),
        ),
        (("LDG.E.64.CONSTANT", "STG.E.64"), ("8-byte loads", "8-byte stores", "read-only loads")),
        (("LDG.E.U16.CONSTANT", "STG.E.U16"), ("read-only loads",)),
        (("LDG.E.128",), ("16-byte loads",)),
        (
            ("LDG.E.EF.128", "STG.E.EF.128"),
            ("16-byte loads", "16-byte stores", "streaming accesses"),
        ),
        (("MUFU.EX2", "MUFU.RCP"), ("fast exponential", "fast reciprocal")),
        (("SHFL.BFLY", "BAR.SYNC.DEFER_BLOCKING"), ("warp shuffles",)),
        (("HADD2.F32", "FADD", "IMAD.WIDE"), ()),
        (("HMUL2.BF16_V2",), ("packed half arithmetic",)),
        (("HFMA2.MMA",), ()),
        (("RED.E.ADD.F32.FTZ.RN.STRONG.GPU",), ("atomics",)),
    ],
)
def test_techniques_by_opcode(opcodes, names):
    assert proven(dict.fromkeys(opcodes, 1)) == names
