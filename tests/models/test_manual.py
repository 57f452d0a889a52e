"""`manual:`, with a thread for the person."""

import asyncio
import threading
import time

import pytest

from astra_kernels.errors import ModelFault, ModelRejected
from astra_kernels.models.backend import Backend
from astra_kernels.models.manual import Desk, ManualModel
from astra_kernels.models.prices import FREE
from tests.models.conftest import Recorder, ask


async def short_pause():
    await asyncio.sleep(0.01)


def opened(meter, directory, role="coding", deadline_s=20.0, pause=short_pause):
    name = f"manual:{directory}"
    model = ManualModel(name, Desk(directory), role, deadline_s, pause)
    return meter.wrap(Backend(name, model, FREE), role)


class Person(threading.Thread):
    """Answers every request file that turns up, until told to stop."""

    def __init__(self, directory, answer):
        super().__init__()
        self.directory, self.answer = directory, answer
        self.done = threading.Event()

    def run(self):
        while not self.done.is_set():
            for path in self.directory.glob("*.request.md"):
                reply = path.with_name(path.name.replace(".request.", ".reply."))
                if not reply.exists():
                    partial = reply.with_suffix(".draft")
                    partial.write_text(self.answer(path.read_text()))
                    partial.rename(reply)
            time.sleep(0.01)

    def __enter__(self):
        self.start()
        return self

    def __exit__(self, *args):
        self.done.set()
        self.join()


def test_a_person_answers_a_file(recorder, meter_of, tmp_path):
    model = opened(meter_of(recorder, usd=1.0), tmp_path / "desk")
    with Person(tmp_path / "desk", lambda text: "Use float4.\n"):
        assert ask(model) == "Use float4.\n"
    page = (tmp_path / "desk" / "0001-coding.request.md").read_text()
    assert "# Instructions\n\nYou write CUDA.\n\n# Request\n\nHow fast?\n" in page
    assert recorder.events[0].key in page
    assert recorder.events[-1].usage.estimated
    assert recorder.events[-1].charged.usd == 0.0


def test_a_reply_that_is_still_written_is_waited_for(recorder, meter_of, tmp_path):
    """A word more turns up between any two looks, until the last one."""
    words = iter(["Use", "float4", "and", "one", "block", "per", "row."])

    async def types_a_word():
        with (tmp_path / "0001-coding.reply.md").open("a") as stream:
            stream.write(next(words, ""))

    assert (
        ask(opened(meter_of(recorder), tmp_path, pause=types_a_word))
        == "Usefloat4andoneblockperrow."
    )


def test_an_empty_reply_is_no_reply(recorder, meter_of, tmp_path):
    (tmp_path / "0001-coding.reply.md").write_text(" \n")
    with pytest.raises(ModelFault, match=r"no 0001-coding.reply.md within 0.2 s"):
        ask(opened(meter_of(recorder), tmp_path, deadline_s=0.2))
    assert recorder.kinds() == ["model_asked", "model_failed"]
    assert (recorder.events[1].kind, recorder.events[1].charged.tokens) == ("timed_out", 0)


def test_a_resumed_run_does_not_ask_twice(recorder, meter_of, tmp_path):
    with pytest.raises(ModelFault):
        ask(opened(meter_of(recorder), tmp_path, deadline_s=0.1))
    (tmp_path / "0001-coding.reply.md").write_text("late, but here")
    model = opened(meter_of(Recorder()), tmp_path)
    assert ask(model) == "late, but here"
    with Person(tmp_path, lambda text: "new"):
        assert ask(model) == "new"
        assert ask(model, "Another?") == "new"
    numbers = sorted(p.name.partition("-")[0] for p in tmp_path.glob("*.request.md"))
    assert numbers == ["0001", "0002", "0003"]


def test_requests_are_numbered_over_all_roles(recorder, meter_of, tmp_path):
    meter = meter_of(recorder)
    with Person(tmp_path, lambda text: "yes"):
        ask(opened(meter, tmp_path, "planning"))
        ask(opened(meter, tmp_path, "coding"))
    assert sorted(p.name for p in tmp_path.glob("*.request.md")) == [
        "0001-planning.request.md",
        "0002-coding.request.md",
    ]
    assert not list(tmp_path.glob("*.partial"))


def test_many_ask_at_once(recorder, meter_of, tmp_path):
    model = opened(meter_of(recorder), tmp_path)
    answers = {}

    def asks(number):
        answers[number] = ask(model, f"question {number}.")

    with Person(tmp_path, lambda text: text[text.index("question") :]):
        threads = [threading.Thread(target=asks, args=(n,)) for n in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert {n: a.strip() for n, a in answers.items()} == {n: f"question {n}." for n in range(8)}


def test_a_long_reply_is_cut(recorder, meter_of, tmp_path):
    (tmp_path / "0001-coding.reply.md").write_text("z" * 100_000)
    model = opened(meter_of(recorder, max_output_tokens=50), tmp_path)
    assert ask(model) == "z" * 200
    assert recorder.events[-1].finish == "length"


def test_a_directory_that_cannot_be_made(recorder, meter_of, tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(ModelRejected, match="cannot be written"):
        ask(opened(meter_of(recorder), tmp_path / "file" / "desk"))
