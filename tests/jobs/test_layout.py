"""Images: what lies where, what is poisoned, and memory that a child cannot change."""

import os

import numpy as np
import pytest

from astra_kernels.errors import UserError
from astra_kernels.jobs.inputs import InputSource
from astra_kernels.jobs.layout import fill_image, lay_out, total_elements
from astra_kernels.jobs.memory import mapped, read_all, result_area, sealed
from astra_kernels.jobs.reference import Reference
from astra_kernels.jobs.spec import ArgumentSpec, InputSpec, TensorSpec
from astra_kernels.jobs.wire import Call, Event, Program, Request, decode_event, decode_request

from .staging import REFERENCE, silu_spec, workload


@pytest.fixture
def prepared(tmp_path):
    (tmp_path / "reference.py").write_text(REFERENCE)
    reference = Reference(tmp_path / "reference.py")

    def prepare(spec, chosen):
        inputs = InputSource(spec, tmp_path, reference).make(chosen)
        return inputs, lay_out(spec, chosen, inputs)

    return prepare


def filled(layout, inputs):
    image = np.zeros(layout.size, np.uint8)
    fill_image(image, layout=layout, inputs=inputs)
    return image


def test_buffers_are_aligned_apart_and_hold_the_inputs(prepared):
    inputs, layout = prepared(silu_spec(), workload("w", 3, 129, workspace_bytes=1000))
    assert [b.name for b in layout.buffers] == ["input", "out", "workspace"]
    assert [b.size for b in layout.buffers] == [3 * 258 * 2, 3 * 129 * 2, 1000]
    assert all(b.offset % 256 == 0 for b in layout.buffers)
    assert all(guard.stop - guard.start >= 256 for _, guard in layout.guards())
    image = filled(layout, inputs)
    first = layout.buffers[0]
    assert image[first.offset : first.offset + first.size].tobytes() == inputs["input"].tobytes()


def test_everything_else_is_random_and_different_every_time(prepared):
    inputs, layout = prepared(silu_spec(), workload("w", 3, 129))
    out = layout.buffer("out")
    one, two = filled(layout, inputs), filled(layout, inputs)
    for span in (slice(out.offset, out.offset + out.size), *(g for _, g in layout.guards())):
        assert np.count_nonzero(one[span] == two[span]) < 0.05 * (span.stop - span.start) + 8


def test_an_output_in_place_shares_the_inputs_buffer(prepared):
    spec = silu_spec(
        outputs=(
            TensorSpec(
                name="result", dtype="float16", shape=("tokens", "two_hidden"), in_place_of="input"
            ),
        ),
        arguments=(ArgumentSpec(name="input", kind="input", ctype="pointer"),),
    )
    chosen = workload("w", 3, 8)
    _, layout = prepared(spec, chosen)
    assert layout.carrier(spec.outputs[0]) == layout.buffer("input")
    assert total_elements(spec, chosen) == 3 * 16


def test_arguments_in_order_with_values(prepared):
    eps = TensorSpec(name="eps", dtype="float32", shape=None)
    spec = silu_spec(
        inputs=(*silu_spec().inputs, eps),
        arguments=(
            ArgumentSpec(name="eps", kind="scalar", ctype="float32"),
            ArgumentSpec(name="hidden", kind="axis", ctype="int32"),
            ArgumentSpec(name="out", kind="output", ctype="pointer"),
            ArgumentSpec(name="workspace", kind="workspace", ctype="pointer"),
            ArgumentSpec(name="stream", kind="stream", ctype="stream"),
        ),
    )
    sources = {"input": InputSpec(type="random"), "eps": InputSpec(type="scalar", value=1e-6)}
    _, layout = prepared(spec, workload("w", 3, 8, inputs=sources))
    bound = [a.bound([1000, 2000], stream=5) for a in layout.arguments]
    assert [a.ctype for a in bound] == ["float32", "int32", "pointer", "pointer", "stream"]
    assert [a.value for a in bound] == [float(np.float32(1e-6)), 8, 2000, 0, 5]


def test_an_unknown_argument_is_named(prepared):
    spec = silu_spec(arguments=(ArgumentSpec(name="what", kind="axis", ctype="int64"),))
    with pytest.raises(UserError, match="'what'"):
        prepared(spec, workload("w", 1, 1))


def test_sealed_memory_cannot_be_changed():
    descriptor = sealed("x", b"content")
    assert read_all(descriptor) == b"content"
    with pytest.raises(PermissionError):
        os.pwrite(descriptor, b"X", 0)
    with pytest.raises((PermissionError, ValueError)):
        mapped(descriptor, writable=True)
    os.close(descriptor)


def test_a_result_keeps_its_size():
    descriptor = result_area("x", 64)
    mapped(descriptor, writable=True)[3] = 9
    assert mapped(descriptor)[3] == 9
    with pytest.raises(PermissionError):
        os.ftruncate(descriptor, 0)
    os.close(descriptor)


def test_requests_and_events_survive_the_wire(prepared):
    _, layout = prepared(silu_spec(), workload("w", 1, 8))
    call = Call(
        uuid="w",
        image_fd=5,
        result_fds=(6, 7),
        size=layout.size,
        buffers=layout.buffers,
        arguments=layout.arguments,
    )
    program = Program(library="/x.so", symbol="f")
    request = Request(
        task="check", device="sim:h200", cuda_runtime="/r.so", programs=(program,), calls=(call,)
    )
    assert decode_request(request.encode()) == request
    event = Event(kind="done", index=3, data={"code": 0})
    assert decode_event(event.encode()) == event
    for line in (b"garbage", b"[]", b'{"other": 1}', b"{}"):
        with pytest.raises(ValueError):
            decode_event(line)
