"""The kinds of events. Apart from their payloads, which nobody needs before somebody listens.

Owns: the kinds. Must not know: payloads, listeners.
Read next: `events.py`.
"""

from __future__ import annotations

from enum import StrEnum


class AgentEventType(StrEnum):
    """Every kind of event."""

    RUN_STARTED = "run_started"
    RUN_ENDED = "run_ended"
    ROUND_STARTED = "round_started"
    ROUND_COMPLETED = "round_completed"
    LLM_CALL_STARTED = "llm_call_started"
    LLM_CALL_COMPLETED = "llm_call_completed"
    LLM_RETRY_ATTEMPTED = "llm_retry_attempted"
    MODEL_FALLBACK = "model_fallback"
    LLM_DEGRADED = "llm_degraded"
    ATTEMPT_DISCARDED = "attempt_discarded"
    STREAM_DELTA = "stream_delta"
    STREAM_THINK_DELTA = "stream_think_delta"
    TOOL_ARGUMENTS_DELTA = "tool_arguments_delta"
    TOOL_CALL_STARTED = "tool_call_started"
    TOOL_CALL_COMPLETED = "tool_call_completed"
    TOOL_CALL_FAILED = "tool_call_failed"
    TOOL_ATTEMPT_FAILED = "tool_attempt_failed"
    TOOL_PROGRESS = "tool_progress"
    LOOP_CANCELLED = "loop_cancelled"
    PROMPT_PREFIX = "prompt_prefix"
    USAGE_UPDATED = "usage_updated"
    STATUS_CHANGED = "status_changed"
    FOLD_STATUS = "fold_status"
    MEMORY_RECALLED = "memory_recalled"
    MEMORY_FAILED = "memory_failed"
    TODO_UPDATED = "todo_updated"
    INBOX_QUEUED = "inbox_queued"
    INBOX_DELIVERED = "inbox_delivered"
    INPUT_REQUESTED = "input_requested"
    SUBAGENT_STARTED = "subagent_started"
    SUBAGENT_COMPLETED = "subagent_completed"
    AGENT_HANDED_OFF = "agent_handed_off"
    CALL_WAITS = "call_waits"
    SIGNAL_RECEIVED = "signal_received"
    TIMER_FIRED = "timer_fired"
    TIMER_UNSERVED = "timer_unserved"
    WORKFLOW_STEP = "workflow_step"
    GUARDRAIL_DECIDED = "guardrail_decided"
    AGENT_ERROR = "agent_error"
