"""A run is an append-only log of events; these are the events, and the configuration that starts one."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from astra_kernels.records.base import Record
from astra_kernels.records.candidate import Candidate
from astra_kernels.records.confirmation import SecondLook
from astra_kernels.records.evaluation import Evaluation
from astra_kernels.records.model_calls import Answered, Asked, Failed, Role
from astra_kernels.records.plan import Diagnosis, Plan
from astra_kernels.records.workload import Workload

Price = Annotated[float, Field(ge=0, le=1e6, allow_inf_nan=False)]
JudgedEvaluation = Annotated[Evaluation, Field(discriminator="outcome")]
"""An evaluation as it is read back from JSON."""


class Budget(Record):
    """Limits that hold across resumes; None is no limit."""

    rounds: int = Field(5, ge=1)
    candidates: int | None = Field(None, ge=1)
    seconds: float | None = Field(None, gt=0)
    requests: int | None = Field(None, ge=1)
    """Requests to language models."""
    tokens: int | None = Field(None, ge=1)
    """Of language models, input and output together."""
    usd: float | None = Field(None, gt=0)

    @property
    def out_of_time(self) -> str:
        """The reason of a search that has no more time; empty where time is no limit."""
        return "" if self.seconds is None else f"budget of {self.seconds:g} s used"


Mode = Literal["rules", "multi", "single", "hybrid", "outside"]
"""`rules`: no model. `multi`: a model in each of the four roles. `single`: one agent does all four jobs.
`hybrid`: `multi`, and source rewrites on every candidate that a model wrote. `outside`: whoever called the tools of
`astra mcp`; nobody here decides, so such a run is neither resumed nor replayed."""


class RunConfig(Record):
    """Everything that was decided when the run began; resolved once, saved first."""

    device: str
    strategy: Literal["beam", "linear"] = "linear"
    beam: int = Field(2, ge=1)
    """How many candidates a round of `beam` starts from."""
    plans_per_round: int = Field(1, ge=1)
    """How many plans are carried out in a round."""
    keep_best: bool = True
    """False is the paper's unconditional replacement: the next round builds on the newest candidate even if it failed."""
    agents: Mode = "rules"
    model: str | None = None
    """Who answers, as the user named it; None for `rules`."""
    models: dict[Role, str] = Field(default_factory=dict)
    """Other models for some of the roles."""
    price: tuple[Price, Price] | None = None
    """US dollars for a million tokens, input and output, in place of the bundled prices."""
    repairs: int = Field(1, ge=0)
    """How often a coder may mend a candidate that failed."""
    memory: bool = True
    """Whether planners hear what came of techniques in earlier runs."""
    screen: str | None = None
    """A simulated device that candidates have to pass first, where jobs on the device are dear."""
    budget: Budget = Budget()
    candidates_per_round: int = Field(3, ge=1)
    """Points of the chosen technique that are tried in one round."""
    seed: int = Field(0, ge=0)


class EventBase(Record):
    """What every event carries."""

    at: str
    """UTC, ISO 8601."""
    elapsed_s: float
    """Seconds of work so far, over all sessions of the run."""


class RunStarted(EventBase):
    """First line of every log."""

    event: Literal["run_started"] = "run_started"
    config: RunConfig
    problem: str
    problem_digest: str
    astra_version: str


class RunResumed(EventBase):
    """The log was read back and the run goes on."""

    event: Literal["run_resumed"] = "run_resumed"
    astra_version: str


class BaselineEvaluated(EventBase):
    """The baseline against its own reference, on the problem's workloads."""

    event: Literal["baseline_evaluated"] = "baseline_evaluated"
    candidate: Candidate
    evaluation: JudgedEvaluation


class WorkloadsProposed(EventBase):
    """What the testing agent proposed, and which of it counts because the baseline agrees with the reference on it."""

    event: Literal["workloads_proposed"] = "workloads_proposed"
    accepted: tuple[Workload, ...]
    refused: dict[str, str]
    """Reason by uuid."""
    evaluations: tuple[JudgedEvaluation, ...] = ()
    """Of the baseline, one for each time that it failed on what was proposed."""
    unasked: str = ""
    """Why a model could not be asked for proposals, where that is why there are none."""


class Diagnosed(EventBase):
    """The profiling agent's word."""

    event: Literal["diagnosed"] = "diagnosed"
    round: int
    diagnosis: Diagnosis


class Planned(EventBase):
    """The planning agent's word, best first."""

    event: Literal["planned"] = "planned"
    round: int
    plans: tuple[Plan, ...]
    parents: tuple[str, ...] = ()
    """Identifiers of the candidates that were planned for, also of those for which there was no plan."""


class CodingRefused(EventBase):
    """The coding agent could not carry out a plan."""

    event: Literal["coding_refused"] = "coding_refused"
    round: int
    plan: Plan
    reason: str
    unanswered: bool = False
    """For want of a model's answer: nothing is said against the plan."""


class CandidateEvaluated(EventBase):
    """A candidate and its outcome."""

    event: Literal["candidate_evaluated"] = "candidate_evaluated"
    round: int
    plan: Plan
    candidate: Candidate
    evaluation: JudgedEvaluation


class CandidateScreened(EventBase):
    """A candidate and what a screening device modelled, where a round had more candidates than it judges."""

    event: Literal["candidate_screened"] = "candidate_screened"
    round: int
    plan: Plan
    candidate: Candidate
    evaluation: JudgedEvaluation


class ModelAsked(EventBase, Asked):
    """A request to a language model; on disk before it is sent."""

    event: Literal["model_asked"] = "model_asked"


class ModelAnswered(EventBase, Answered):
    """What the model answered, word for word."""

    event: Literal["model_answered"] = "model_answered"


class ModelFailed(EventBase, Failed):
    """A request without an answer; it may have been sent again."""

    event: Literal["model_failed"] = "model_failed"


class MachineFaulted(EventBase):
    """The machine failed while a candidate was judged; charged to nobody."""

    event: Literal["machine_faulted"] = "machine_faulted"
    candidate: str
    detail: str


class RoundEnded(EventBase):
    """A round is complete: a resume begins with the next."""

    event: Literal["round_ended"] = "round_ended"
    round: int


class WinnerRemeasured(EventBase):
    """The best candidate judged again, with fresh seeds: luck of the search does not reach the headline."""

    event: Literal["winner_remeasured"] = "winner_remeasured"
    candidate: str
    evaluation: JudgedEvaluation
    holds: bool
    """Whether it beats the baseline again."""
    control: JudgedEvaluation | None = None
    """The baseline against itself by the same method, where the candidate was measured to be faster."""
    elsewhere: JudgedEvaluation | None = None
    """The candidate on a second device, where there is one."""
    trouble: tuple[str, ...] = ()
    """Parts of the look that the machine could not make."""

    @property
    def look(self) -> SecondLook:
        """What there is to conclude from."""
        return SecondLook(
            evaluation=self.evaluation,
            control=self.control,
            elsewhere=self.elsewhere,
            trouble=self.trouble,
        )


class RunFinished(EventBase):
    """Last line of a run that ended by itself."""

    event: Literal["run_finished"] = "run_finished"
    reason: str
    best: str | None
    """Identifier of the best candidate; None when no candidate beats the baseline."""
    spent_in: int | None = None
    """The round in which a model could not be asked any more, 0 before the first; None where that was not the end."""


Event = Annotated[
    RunStarted
    | RunResumed
    | BaselineEvaluated
    | WorkloadsProposed
    | Diagnosed
    | Planned
    | CodingRefused
    | CandidateEvaluated
    | CandidateScreened
    | ModelAsked
    | ModelAnswered
    | ModelFailed
    | MachineFaulted
    | RoundEnded
    | WinnerRemeasured
    | RunFinished,
    Field(discriminator="event"),
]
