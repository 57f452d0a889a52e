"""A run in memory, a meter that does not sleep, and questions asked through a real agent."""

import asyncio
import threading

import pytest
from pydantic_ai import Agent
from pydantic_ai.messages import ModelResponse, TextPart
from pydantic_ai.models.function import FunctionModel
from pydantic_ai.usage import RequestUsage

from astra_kernels.models.backend import Backend
from astra_kernels.models.ledger_gate import LedgerGate
from astra_kernels.models.limits import Limits, Patience
from astra_kernels.models.meter import Meter
from astra_kernels.models.secrets import Secrets
from astra_kernels.records.history import History
from astra_kernels.records.journal import Journal
from astra_kernels.records.run import Budget


class Recorder:
    """The events of a run, and a journal that adds to them."""

    def __init__(self, events=()):
        self.events = list(events)
        self.journal = Journal(History.fold(self.events), self.events.append)

    @property
    def ledger(self):
        return self.journal.history.ledger

    def kinds(self):
        return [e.event for e in self.events]

    def killed(self):
        """The same run in a new session, as if this one had been killed."""
        return Recorder(self.events)


class Waits:
    """Stands for the clock: notes how long the meter would have slept."""

    def __init__(self):
        self.seconds = []

    async def __call__(self, seconds):
        self.seconds.append(seconds)


@pytest.fixture
def recorder():
    return Recorder()


@pytest.fixture
def waits():
    return Waits()


@pytest.fixture
def meter_of(waits):
    """Makes meters, and closes them."""
    made = []

    def make(recorder, environment=None, told=None, **bounds):
        patience = bounds.pop("patience", Patience(sleep=waits, jitter=lambda: 1.0))
        limits = Limits(
            patience=patience,
            max_output_tokens=bounds.pop("max_output_tokens", 1000),
            prices=bounds.pop("prices", {}),
        )
        gate = LedgerGate(recorder.journal, Budget(**bounds))
        meter = Meter(
            gate, Secrets(environment or {}), limits, ([] if told is None else told).append
        )
        made.append(meter)
        return meter

    yield make
    for meter in made:
        meter.loop.close()


def answering(*answers, name="fake:model"):
    """A backend that gives these answers in turn: a text, a response, or an exception to raise."""
    left = list(answers)
    lock = threading.Lock()

    def answer(messages, info):
        with lock:
            nxt = left.pop(0)
        if isinstance(nxt, BaseException):
            raise nxt
        return nxt if isinstance(nxt, ModelResponse) else response(nxt)

    return Backend(name, FunctionModel(answer), deadline_s=30.0)


def response(text, input_tokens=10, output_tokens=5, finish="stop"):
    return ModelResponse(
        parts=[TextPart(text)],
        usage=RequestUsage(input_tokens=input_tokens, output_tokens=output_tokens),
        finish_reason=finish,
    )


def ask(model, question="How fast?", instructions="You write CUDA."):
    return run(Agent(model, instructions=instructions), question).output


def run(agent, question="?"):
    """Like `run_sync`, which leaves the event loop of a thread open."""
    return asyncio.run(agent.run(question))
