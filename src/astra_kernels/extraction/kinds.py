"""Operators that are known by kind: what their tensors are, and which NumPy reference says what they compute.

A kind is recognised by the function's name and by the names of its parameters. That it is right is not
believed: the reference is compared with the kernel before it is used.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

Sizes = dict[str, int]


@dataclass(frozen=True)
class Tensor:
    """A tensor by axis names; `dtype` "" is the operator's element type."""

    names: tuple[str, ...]
    shape: tuple[str, ...]
    dtype: str = ""
    output: bool = False
    input: bool = True
    """Whether its values before the call matter."""


@dataclass(frozen=True)
class Kind:
    """One kind of operator; tensors and scalars are named by their roles in the reference."""

    name: str
    functions: str
    """What the function is called, as a regular expression."""
    op_type: str
    reference: str
    says: str
    tensors: dict[str, Tensor]
    axes: dict[str, object]
    sizes: tuple[Sizes, ...]
    """Small and odd ones; all that come first, up to `untimed`, are not timed."""
    untimed: int
    scalars: dict[str, float] = field(default_factory=dict)
    options: dict[str, dict[str, object]] = field(default_factory=dict)
    """Keyword arguments of the reference by what the function's name contains; "" for any."""
    constants: dict[str, object] = field(default_factory=dict)
    workspace: tuple[str, str] | None = None
    """A tensor that is scratch memory: its name, and its size in bytes."""
    constraints: tuple[str, ...] = ()
    """What else has to hold of the sizes."""
    element: str = ""
    """The element type that it always has."""

    def option(self, function: str) -> dict[str, object]:
        """The reference's keyword arguments for a function."""
        fitting = [k for k in self.options if k in function]
        return self.options[max(fitting, key=len)] if fitting else {}

    def fits(self, function: str) -> bool:
        """Whether a function is called so."""
        return re.fullmatch(self.functions, function) is not None


def _var(most: int, multiple: int = 1, least: int = 1) -> dict[str, object]:
    return {"type": "var", "domain": {"min": least, "max": most, "multiple_of": multiple}}


def _expr(text: str) -> dict[str, object]:
    return {"type": "expr", "expression": text}


def _out(*names: str, shape: tuple[str, ...], dtype: str = "") -> Tensor:
    return Tensor(names, shape, dtype, output=True, input=False)


_X = ("input", "x", "hidden_states")
_OUT = ("out", "output", "result", "y")
_WEIGHT = ("weight", "w", "gamma")
_ROWS = {"tokens": _var(4096), "hidden": _var(16384, 8, 8)}
_ROW = ("tokens", "hidden")
_NORM_SIZES: tuple[Sizes, ...] = (
    {"tokens": 1, "hidden": 8},
    {"tokens": 7, "hidden": 1032},
    {"tokens": 19, "hidden": 128},
    {"tokens": 33, "hidden": 4096},
    {"tokens": 16, "hidden": 8192},
)
_HEADS = {"tokens": _var(4096), "heads": _var(64), "head_dim": _var(256, 64, 64)}
_HEAD_DIMS = ("head_dim == 64 or head_dim == 128 or head_dim == 256",)
"""Those that attention kernels are compiled for."""
_STATE = ("tokens", "heads", "head_dim")
_QK = {
    "tokens": _var(2048),
    "q_heads": _var(32),
    "k_heads": _var(8),
    "head_dim": {"type": "const", "value": 128},
}
_ROPE = {
    "q": Tensor(("q", "query"), ("tokens", "q_heads", "head_dim")),
    "k": Tensor(("k", "key"), ("tokens", "k_heads", "head_dim")),
    "q_rope": _out("q_rope", "q_out", shape=("tokens", "q_heads", "head_dim")),
    "k_rope": _out("k_rope", "k_out", shape=("tokens", "k_heads", "head_dim")),
}
_ROPE_SIZES: tuple[Sizes, ...] = (
    {"tokens": 1, "q_heads": 1, "k_heads": 1},
    {"tokens": 13, "q_heads": 5, "k_heads": 3},
    {"tokens": 64, "q_heads": 8, "k_heads": 2},
    {"tokens": 128, "q_heads": 32, "k_heads": 8},
)
_GEMMA: dict[str, dict[str, object]] = {"": {"bias": 0.0}, "gemma": {"bias": 1.0}}
_TOPK_AXES = {"batch": _var(64), "vocab": _var(16384, 1, 256)}
_TOPK_SIZES: tuple[Sizes, ...] = (
    {"batch": 1, "vocab": 257},
    {"batch": 3, "vocab": 1031},
    {"batch": 4, "vocab": 4096},
    {"batch": 16, "vocab": 16384},
)

KINDS: tuple[Kind, ...] = (
    Kind(
        name="gated activation",
        functions=r"(?:silu|gelu|gelu_tanh)_and_mul",
        op_type="activation",
        reference="gated_activation",
        says="out = f(x) * gate, f the activation in the name; each row of the input is [x | gate]. "
        "Computed in float32 and rounded once.",
        tensors={"input": Tensor(_X, ("tokens", "both")), "out": _out(*_OUT, shape=_ROW)},
        axes={**_ROWS, "both": _expr("2 * hidden")},
        sizes=_NORM_SIZES,
        untimed=3,
        options={
            "silu": {"function": "silu"},
            "gelu": {"function": "gelu"},
            "gelu_tanh": {"function": "gelu_tanh"},
        },
    ),
    Kind(
        name="RMS norm",
        functions=r"(?:gemma_)?rms_?norm",
        op_type="norm",
        reference="rmsnorm",
        says="out = x / sqrt(mean(x^2) + eps) * weight over each row, with weight + 1 where the name says "
        "Gemma. Computed in float32 and rounded once.",
        tensors={
            "input": Tensor(_X, _ROW),
            "weight": Tensor(_WEIGHT, ("hidden",)),
            "out": _out(*_OUT, shape=_ROW),
        },
        axes=dict(_ROWS),
        sizes=_NORM_SIZES,
        untimed=3,
        scalars={"eps": 1e-6},
        options=_GEMMA,
    ),
    Kind(
        name="fused add and RMS norm",
        functions=r"(?:gemma_)?fused_add_rms_?norm",
        op_type="norm",
        reference="fused_add_rmsnorm",
        says="residual = input + residual; input = residual / sqrt(mean(residual^2) + eps) * weight, with "
        "weight + 1 where the name says Gemma; both in place. Computed in float32, rounded once.",
        tensors={
            "input": Tensor(_X, _ROW, output=True),
            "residual": Tensor(("residual",), _ROW, output=True),
            "weight": Tensor(_WEIGHT, ("hidden",)),
        },
        axes=dict(_ROWS),
        sizes=_NORM_SIZES,
        untimed=3,
        scalars={"eps": 1e-6},
        options=_GEMMA,
    ),
    Kind(
        name="layer norm",
        functions=r"layer_?norm",
        op_type="norm",
        reference="layernorm",
        says="out = (x - mean) / sqrt(variance + eps) * gamma + beta over each row; gamma and beta are float32.",
        tensors={
            "input": Tensor(_X, _ROW),
            "gamma": Tensor(_WEIGHT, ("hidden",), "float32"),
            "beta": Tensor(("beta", "bias"), ("hidden",), "float32"),
            "out": _out(*_OUT, shape=_ROW),
        },
        axes=dict(_ROWS),
        sizes=_NORM_SIZES,
        untimed=3,
        scalars={"eps": 1e-6},
        element="bfloat16",
    ),
    Kind(
        name="merge of two attention states",
        functions=r"merge_(?:attn_)?states?(?:_v2)?",
        op_type="merge_state",
        reference="merge_state",
        says="v = (2^s_a v_a + 2^s_b v_b) / (2^s_a + 2^s_b), s = log2(2^s_a + 2^s_b), relative to the "
        "larger; s are finite log-sum-exps in base 2.",
        tensors={
            "v_a": Tensor(("v_a",), _STATE),
            "s_a": Tensor(("s_a",), _STATE[:2], "float32"),
            "v_b": Tensor(("v_b",), _STATE),
            "s_b": Tensor(("s_b",), _STATE[:2], "float32"),
            "v": _out("v_merged", "v_out", shape=_STATE),
            "s": _out("s_merged", "s_out", shape=_STATE[:2], dtype="float32"),
        },
        axes=dict(_HEADS),
        constraints=_HEAD_DIMS,
        sizes=(
            {"tokens": 1, "heads": 1, "head_dim": 64},
            {"tokens": 33, "heads": 5, "head_dim": 64},
            {"tokens": 128, "heads": 8, "head_dim": 128},
            {"tokens": 64, "heads": 32, "head_dim": 128},
        ),
        untimed=2,
    ),
    Kind(
        name="merge of several attention states",
        functions=r"merge_states",
        op_type="merge_state",
        reference="merge_states",
        says="Over the states along axis 1: v = sum(2^s v) / sum(2^s), s = log2(sum(2^s)), relative to "
        "the largest.",
        tensors={
            "v": Tensor(("v",), ("tokens", "states", "heads", "head_dim")),
            "s": Tensor(("s",), ("tokens", "states", "heads"), "float32"),
            "v_merged": _out("v_merged", shape=_STATE),
            "s_merged": _out("s_merged", shape=_STATE[:2], dtype="float32"),
        },
        axes={**_HEADS, "states": _var(32)},
        constraints=_HEAD_DIMS,
        sizes=(
            {"tokens": 1, "states": 1, "heads": 1, "head_dim": 64},
            {"tokens": 17, "states": 5, "heads": 3, "head_dim": 64},
            {"tokens": 32, "states": 8, "heads": 8, "head_dim": 128},
        ),
        untimed=2,
    ),
    Kind(
        name="rotary embedding at positions",
        functions=r"apply_rope_pos_ids",
        op_type="rope",
        reference="rope",
        says="q and k rotated by pos / (rope_scale * rope_theta^(2i/head_dim)), first half against second half.",
        tensors={**_ROPE, "pos_ids": Tensor(("pos_ids", "positions"), ("tokens",), "int32")},
        axes=dict(_QK),
        sizes=_ROPE_SIZES,
        untimed=2,
        scalars={"rope_scale": 1.0, "rope_theta": 1e4},
        constants={"rotary_dim": 128, "interleave": False},
    ),
    Kind(
        name="rotary embedding from a table",
        functions=r"apply_rope_pos_ids_cos_sin_cache",
        op_type="rope",
        reference="rope_cache",
        says="q and k rotated by the row of cosines and sines at their position, first half against second half.",
        tensors={
            **_ROPE,
            "cos_sin_cache": Tensor(("cos_sin_cache",), ("positions", "head_dim"), "float32"),
            "pos_ids": Tensor(("pos_ids", "positions"), ("tokens",), "int32"),
        },
        axes={**_QK, "positions": {"type": "const", "value": 2048}},
        sizes=_ROPE_SIZES,
        untimed=2,
        constants={"interleave": False},
    ),
    Kind(
        name="packing of bits",
        functions=r"packbits",
        op_type="quantization",
        reference="packbits",
        says="Eight booleans to a byte, the first in the highest bit.",
        tensors={
            "x": Tensor(("x", "input"), ("elements",), "bool"),
            "y": _out("y", "output", "out", shape=("bytes",), dtype="uint8"),
        },
        axes={"elements": _var(1 << 22), "bytes": _expr("ceil_div(elements, 8)")},
        sizes=({"elements": 1}, {"elements": 1031}, {"elements": 65536}, {"elements": 1048576}),
        untimed=2,
        constants={"bitorder": "big"},
        element="bool",
    ),
    Kind(
        name="append to a paged key and value cache",
        functions=r"append_paged_kv_cache",
        op_type="page",
        reference="page_append",
        says="Writes each token's key and value at its request's page and position; every other entry of "
        "the caches stays.",
        tensors={
            "append_key": Tensor(("append_key",), _STATE),
            "append_value": Tensor(("append_value",), _STATE),
            "batch_indices": Tensor(("batch_indices",), ("tokens",), "int32"),
            "positions": Tensor(("positions",), ("tokens",), "int32"),
            "paged_k_cache": Tensor(
                ("paged_k_cache",), ("pages", "page_size", *_STATE[1:]), output=True
            ),
            "paged_v_cache": Tensor(
                ("paged_v_cache",), ("pages", "page_size", *_STATE[1:]), output=True
            ),
            "kv_indices": Tensor(("kv_indices",), ("pages",), "int32"),
            "kv_indptr": Tensor(("kv_indptr",), ("ends",), "int32"),
            "kv_last_page_len": Tensor(("kv_last_page_len",), ("batch",), "int32"),
        },
        axes={
            "tokens": _var(256),
            "batch": _var(16),
            "pages": _var(64, 1, 16),
            "ends": _expr("batch + 1"),
            "page_size": {"type": "const", "value": 16},
            "heads": {"type": "const", "value": 4},
            "head_dim": {"type": "const", "value": 128},
        },
        sizes=(
            {"tokens": 1, "batch": 1, "pages": 16},
            {"tokens": 37, "batch": 3, "pages": 18},
            {"tokens": 128, "batch": 8, "pages": 32},
        ),
        untimed=2,
        constants={"layout": 0},
    ),
    Kind(
        name="renormalisation of the k largest probabilities",
        functions=r"top_k_renorm_probs?",
        op_type="sampling",
        reference="topk_renorm",
        says="The k largest of each row divided by their sum, the others 0. The values of a row differ "
        "from one another.",
        tensors={
            "probs": Tensor(("probs",), ("batch", "vocab"), "float32"),
            "renorm": _out("renorm_probs", shape=("batch", "vocab"), dtype="float32"),
        },
        axes=dict(_TOPK_AXES),
        sizes=_TOPK_SIZES,
        untimed=2,
        constants={"is_deterministic": True, "top_k_val": 40},
        workspace=("row_states_buffer", "1048576"),
        element="float32",
    ),
    Kind(
        name="mask of all but the k largest logits",
        functions=r"top_k_mask_logits",
        op_type="sampling",
        reference="topk_mask",
        says="The k largest of each row stay, the others become -inf.",
        tensors={
            "logits": Tensor(("logits",), ("batch", "vocab"), "float32"),
            "masked": _out("mask_logits", shape=("batch", "vocab"), dtype="float32"),
        },
        axes=dict(_TOPK_AXES),
        sizes=_TOPK_SIZES,
        untimed=2,
        constants={"top_k_val": 40},
        workspace=("row_states_buffer", "1048576"),
        element="float32",
    ),
)
