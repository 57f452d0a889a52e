"""Lines of a child count only if the child wrote them, and only where they can stand."""

import json

import pytest

from astra_kernels.devices.device import CallReport, Fault, Launch
from astra_kernels.jobs.claims import call_report, timing_report
from astra_kernels.jobs.conversation import Conversation, Seal
from astra_kernels.jobs.wire import Call, Event, Request, Tampered, decode_event
from astra_kernels.records.evaluation import LineProfile

KEY = b"k" * 32
REPORT = {"code": 0, "fault": None, "launches": [], "notes": [], "message": ""}


def request(task="check", calls=2):
    call = Call(uuid="w", image_fd=0, result_fds=(), size=0, buffers=(), arguments=())
    return Request(
        task=task, device="sim:h200", cuda_runtime="", programs=(), calls=(call,) * calls
    )


def spoken(*events, task="check", key=KEY):
    seal, conversation = Seal(key), Conversation(request(task), KEY)
    for event in events:
        line = seal.sealed(event.encode())
        conversation.accept(line.removesuffix(b"\n"))
    return conversation


READY = Event(kind="ready", data={"name": "H200", "clock_mhz": 1980, "driver": ""})
LOADING, END = Event(kind="loading"), Event(kind="end")


def begin(index):
    return Event(kind="begin", index=index)


def done(index):
    return Event(kind="done", index=index, data=REPORT)


FIRST, SECOND = (begin(0), done(0)), (begin(1), done(1))


def test_a_whole_task():
    conversation = spoken(READY, LOADING, *FIRST, *SECOND, END)
    assert conversation.complete
    marks = [Event(kind="mark", index=0, detail=f"0 {word}") for word in ("begins", "ends")]
    ceilings = Event(kind="mark", detail="ceilings", data={"copy_gb_s": 4000.0})
    timed = (READY, ceilings, LOADING, begin(0), *marks, done(0), *SECOND, END)
    assert spoken(*timed, task="time").complete


def test_an_early_end_is_not_complete():
    assert not spoken(READY, LOADING, *FIRST, END).complete
    assert not spoken(READY, LOADING, *FIRST, *SECOND).complete


@pytest.mark.parametrize(
    "events",
    [
        (LOADING,),
        (READY, READY),
        (READY, begin(0)),
        (READY, LOADING, LOADING),
        (READY, LOADING, begin(1)),
        (READY, LOADING, begin(-1)),
        (READY, LOADING, done(0)),
        (READY, LOADING, begin(0), begin(0)),
        (READY, LOADING, begin(0), done(1)),
        (READY, LOADING, begin(0), done(0), done(0)),
        (READY, LOADING, begin(0), END),
        (READY, LOADING, *FIRST, *SECOND, begin(2)),
        (READY, LOADING, *FIRST, *SECOND, END, END),
        (READY, LOADING, *FIRST, Event(kind="failed")),
        (READY, LOADING, Event(kind="mark", detail="ceilings")),
        (Event(kind="ready", data={"bandwidth_gb_s": "much"}),),
        (Event(kind="ready", data={"name": 5}),),
    ],
)
def test_what_cannot_stand_there_is_tampering(events):
    with pytest.raises(Tampered):
        spoken(*events)


def test_a_line_without_its_code_is_tampering():
    with pytest.raises(Tampered, match="something else"):
        spoken(READY, key=b"x" * 32)
    with pytest.raises(Tampered):
        Conversation(request(), KEY).accept(END.encode())
    line = Seal(KEY).sealed(READY.encode()).removesuffix(b"\n")
    conversation = Conversation(request(), KEY)
    conversation.accept(line)
    with pytest.raises(
        Tampered, match="something else"
    ):  # the number of a line is part of its code
        conversation.accept(line)


EVENT = {"kind": "done", "index": 0, "detail": "", "data": {}}


@pytest.mark.parametrize(
    "raw",
    [
        b"[1]",
        b"null",
        b"1e999",
        b"\xff\xfe",
        b'{"kind": "end"}',
        json.dumps({**EVENT, "kind": "zzz"}).encode(),
        json.dumps({**EVENT, "kind": ["end"]}).encode(),
        json.dumps({**EVENT, "index": "x"}).encode(),
        json.dumps({**EVENT, "index": True}).encode(),
        json.dumps({**EVENT, "index": 0.5}).encode(),
        json.dumps({**EVENT, "detail": None}).encode(),
        json.dumps({**EVENT, "data": []}).encode(),
        json.dumps({**EVENT, "data": {"x": float("nan")}}).encode(),
        json.dumps({**EVENT, "more": 1}).encode(),
    ],
)
def test_events_have_exactly_their_fields_and_types(raw):
    assert decode_event(json.dumps(EVENT).encode()) == Event(**EVENT)
    with pytest.raises(ValueError):
        decode_event(raw)


LAUNCH = {
    "kernel": "k",
    "grid": [8, 2, 1],
    "block": [128, 1, 1],
    "dynamic_shared_bytes": 0,
    "metrics": {"dram__bytes_read.sum": 64},
    "modelled_us": 2.5,
    "sampled_blocks": [4, 16],
    "lines": [{"file": "k.cu", "line": 3, "metrics": {"inst_executed": 5}}],
}
FAULT = {"kind": "error", "message": "m", "kernel": "", "block": None, "thread": None}
FAULT |= {"file": None, "line": None}


def test_a_report_is_read():
    fault = {**FAULT, "block": [1, 2, 3], "line": 7}
    assert call_report(
        {"code": 7, "fault": fault, "launches": [LAUNCH], "notes": [], "message": ""}
    ) == CallReport(
        code=7,
        fault=Fault(kind="error", message="m", block=(1, 2, 3), line=7),
        launches=(
            Launch(
                kernel="k",
                grid=(8, 2, 1),
                block=(128, 1, 1),
                dynamic_shared_bytes=0,
                metrics={"dram__bytes_read.sum": 64},
                modelled_us=2.5,
                sampled_blocks=(4, 16),
                lines=(LineProfile(file="k.cu", line=3, metrics={"inst_executed": 5}),),
            ),
        ),
    )


@pytest.mark.parametrize(
    "data",
    [
        {},
        {**REPORT, "code": "0"},
        {**REPORT, "code": False},
        {**REPORT, "launches": {}},
        {**REPORT, "notes": [1]},
        {**REPORT, "message": None},
        {**REPORT, "launches": [{}]},
        {**REPORT, "fault": "none"},
        {**REPORT, "fault": {**FAULT, "message": 3}},
        {**REPORT, "fault": {**FAULT, "block": [1, 2]}},
        *(
            {**REPORT, "launches": [{**LAUNCH, **change}]}
            for change in (
                {"kernel": 1},
                {"grid": [1, 1]},
                {"grid": [-1, 1, 1]},
                {"block": "abc"},
                {"metrics": {"x": float("inf")}},
                {"metrics": {"x": -1}},
                {"metrics": {"x": "1"}},
                {"modelled_us": 0},
                {"modelled_us": -1.0},
                {"modelled_us": float("nan")},
                {"sampled_blocks": [4, 17]},
                {"lines": [{"file": "k.cu", "line": -1, "metrics": {}}]},
                {"lines": [{"file": "k.cu", "line": 1, "metrics": {"x": "1"}}]},
                {"lines": [{"file": 3, "line": 1, "metrics": {}}]},
                {"lines": [{"file": "k.cu", "line": 1, "metrics": {}}] * 65},
                {"sampled_blocks": [0, 16]},
                {"model_error": 0.0},
            )
        ),
    ],
)
def test_a_report_that_no_device_gives_is_tampering(data):
    with pytest.raises(Tampered):
        call_report(data)


TURN = {"key": 2**64 - 1, "index": 3}
TIMES = {
    "rounds": [[4.0, 2.0]],
    "ended": [100.5],
    "turns": [TURN, TURN],
    "refused": ["", ""],
    "long_us": [2e4, 2e4],
    "kernels": 1,
    "warm": [],
    "chain": None,
}


def test_times_are_read():
    assert timing_report(TIMES, 2).rounds == [(4.0, 2.0)]
    none = {"rounds": [], "ended": [], "turns": [], "long_us": []}
    refused = {**TIMES, **none, "refused": ["", "it synchronises"]}
    assert timing_report(refused, 2).refused[1] == "it synchronises"


def test_a_timed_call_may_fail_in_its_course():
    failed = Event(kind="failed", index=0, detail="CUDA_ERROR_ILLEGAL_ADDRESS")
    assert not spoken(READY, LOADING, begin(0), failed, END, task="time").complete
    with pytest.raises(Tampered):
        spoken(READY, LOADING, begin(0), failed)
    with pytest.raises(Tampered):
        spoken(READY, LOADING, begin(0), Event(kind="failed", index=1), task="time")


@pytest.mark.parametrize(
    "change",
    [
        {"rounds": []},
        {"rounds": [[4.0]]},
        {"rounds": [[4.0, 0.0]]},
        {"rounds": [[4.0, float("nan")]]},
        {"rounds": "no"},
        {"refused": [""]},
        {"refused": [0, ""]},
        {"long_us": []},
        {"long_us": [1.0, -1.0]},
        {"ended": []},
        {"turns": [TURN]},
        {"turns": [TURN, {"key": 2**64, "index": 0}]},
        {"chain": {"rounds": [], "turn": TURN}},
        {"chain": {"rounds": [[1.0, 1.0]], "turn": TURN}},
        {"sets": 2},
        {"kernels": -1},
    ],
)
def test_times_that_cannot_be_are_tampering(change):
    with pytest.raises(Tampered):
        timing_report({**TIMES, **change}, 2)
