"""A recorded run, and models that answer from a script."""

from pathlib import Path

import pytest
from pydantic_ai.messages import ModelResponse, TextPart
from pydantic_ai.models.function import FunctionModel

from astra_kernels.app.runs import read_run

RUN = Path(__file__).parent / "run"

_EDIT = """Title: other order
### sigmoid.cu
```
<<<<<<< SEARCH
    out_row[i] = scale / (1.0f + expf(-row[i]));
=======
    out_row[i] = scale * (1.0f / (1.0f + expf(-row[i])));
>>>>>>> REPLACE
```
"""


class Script:
    """Answers in order, the last one again and again; keeps what it was asked."""

    def __init__(self, *answers):
        self.answers = answers
        self.asked = []
        self.model = FunctionModel(self._answer)

    def _answer(self, messages, info):
        self.asked.append((info.instructions, [_text(m) for m in messages]))
        answer = self.answers[min(len(self.asked), len(self.answers)) - 1]
        if isinstance(answer, Exception):
            raise answer
        text, finish = answer if isinstance(answer, tuple) else (answer, "stop")
        return ModelResponse(parts=[TextPart(text)], finish_reason=finish)

    @property
    def told(self):
        """What the model was told after its last unusable answer."""
        return self.asked[-1][1][-1]


def _text(message):
    return "".join(part.content for part in message.parts)


@pytest.fixture
def script():
    return Script


@pytest.fixture(scope="session")
def recorded():
    return read_run(RUN)


@pytest.fixture(scope="session")
def problem(recorded):
    return recorded.problem


@pytest.fixture
def history(recorded):
    """As of the start of the third round: three attempts passed, three were incorrect."""
    return recorded.history.before(3)


@pytest.fixture
def parent(history):
    return history.fastest().candidate


@pytest.fixture
def plan(recorded):
    return recorded.history.plans[3][0]


@pytest.fixture
def edit():
    """An answer of a coder that carries out something on the kernel of the recorded run."""
    return _EDIT
