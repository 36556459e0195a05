"""What happened in a workflow run: steps that began, waited and ended, and what was decided between them.

Owns: these kinds of records. Must not know: how they are folded (`core/workflow_state.py`), what a spec may say.
Loaded with the first of them. The rules of `records.py` hold here as well.
A tool step's own records are `ToolStarted` and `ToolFinished` with the step's call id; its end is the `ToolFinished`.
So is that of an approve step, whose question is a `QuestionAsked`.
Read next: `core/workflow_state.py`.
"""

# Annotations are values here, not text: msgspec would compile each of them when it makes a decoder.

from typing import Any, Literal, TypeAlias

from msgspec import Struct

from .family_records import SharedAccount, WaitsOn
from .records import Interaction
from .usage import NO_USAGE, Usage

StepOutcome = Literal["completed", "failed", "skipped", "cancelled"]
"""How a step ended; a skipped one was not wanted (`when`) or not reached."""


class WorkflowStarted(
    Struct, frozen=True, gc=False, tag_field="kind", tag="workflow_started", omit_defaults=True, kw_only=True
):
    """A run began; it keeps the spec that it was given."""

    spec: dict[str, Any]
    """`WorkflowSpec` as JSON."""
    input: Any = None
    run_token_budget: int | None = None
    account: SharedAccount | None = None
    detached: bool = False
    """The session that started it hears of its end through its inbox."""


class StepStarted(
    Struct, frozen=True, gc=False, tag_field="kind", tag="step_started", omit_defaults=True, kw_only=True
):
    """A leaf began; a child's creation is written with it."""

    path: str
    """Ids from the root, with iteration indexes: `research[2]/r`."""
    attempt: int = 1
    child_id: str | None = None
    fallback: bool = False
    place: str = ""
    """Where the leaf's journal is while it runs, as its executor names it; "" for the store of the run."""


class StepWaits(Struct, frozen=True, gc=False, tag_field="kind", tag="step_waits", omit_defaults=True, kw_only=True):
    """A leaf goes on when something outside happened."""

    path: str
    on: WaitsOn
    child_id: str | None = None
    interactions: tuple[Interaction, ...] = ()
    until: float | None = None
    signal: str | None = None


class StepWoken(Struct, frozen=True, gc=False, tag_field="kind", tag="step_woken", omit_defaults=True):
    """What a leaf waited for has happened: whoever drives the run looks at it again."""

    path: str
    why: WaitsOn
    place: str = ""
    """As in `StepStarted`: who goes on with it need not be who began it."""


class StepFinished(
    Struct, frozen=True, gc=False, tag_field="kind", tag="step_finished", omit_defaults=True, kw_only=True
):
    """A leaf ended, or one attempt of it; never run again."""

    path: str
    outcome: StepOutcome
    attempt: int = 1
    text: str = ""
    """What later steps see; its head where `artifact_id` names the whole."""
    data: Any = None
    """Its structured value, a JSON value."""
    artifact_id: str | None = None
    child_id: str | None = None
    child_usage: Usage = NO_USAGE
    """Counted for the run's send, not for its session."""
    error_code: str | None = None
    error_message: str | None = None


class NodeDecided(Struct, frozen=True, gc=False, tag_field="kind", tag="node_decided", omit_defaults=True):
    """What came of looking at values: how many items a foreach has, which case a branch took, whether a loop goes on.

    A condition that was not met is a `StepFinished` as skipped.
    """

    path: str
    value: Any = None


WorkflowRecord: TypeAlias = WorkflowStarted | StepStarted | StepWaits | StepWoken | StepFinished | NodeDecided
"""What a run consists of beside the records of its send and its tool steps."""
