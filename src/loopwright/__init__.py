"""Loopwright: an embeddable, durable agent execution kernel.

Owns: the public names. Importing this package loads nothing else: each name comes with its first use.
Read next: `loop.py`, then `engine/run.py`.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .config import AgentLoopConfig, LLMRetryPolicy, WorkerSettings
    from .context.agentic_fold import AgenticFold
    from .context.permission_file import load_permissions
    from .context.projected import ProjectedRepresentation
    from .context.summary_fold import LLMSummaryFold
    from .context.verbatim import VerbatimRepresentation
    from .core.result import FollowUpQueued, StatefulResult
    from .engine.bus import AgentEventBus
    from .engine.hooks import AgentHooks
    from .loop import StatefulAgentLoop, run_sync
    from .model.call_errors import ToolFailure
    from .model.errors import (
        CancellationRequested,
        LLMRetryExhausted,
        LLMTimeout,
        LoopwrightError,
        SessionBusyError,
        SessionFencedError,
        SessionNotFoundError,
        SessionPendingError,
    )
    from .model.event_types import AgentEventType
    from .model.events import AgentEvent
    from .model.messages import AssistantMessage, FilePart, ImagePart, Message, TextPart, ToolCall, UserMessage
    from .model.permission_spec import ApprovalAnswer, PermissionPolicy, PermissionRule
    from .model.specs import StructuredOutputSpec
    from .model.usage import Usage
    from .ports.cancellation import CancellationToken
    from .ports.hook_points import HookDirective, HookPoint
    from .ports.llm import LLMRequest, LLMResponse, LLMService, LLMStreamChunk
    from .ports.schema_policy import SchemaPolicy
    from .ports.store_admin import SessionStore
    from .ports.tool import InputNeeded, ToolContext, ToolDefinition, ToolHandlerResult
    from .stores.dsn import open_store
    from .tools.decorator import tool
    from .tools.presets import create_default_tool_registry
    from .tools.registry import ToolRegistry
    from .transports.price_table import PriceTable
    from .transports.provider_config import LLMProviderConfig
    from .transports.service_factory import create_llm_service_from_config, create_llm_service_from_env

_HOME = {
    "AgentEvent": "model.events",
    "AgentEventBus": "engine.bus",
    "AgentEventType": "model.event_types",
    "AgentHooks": "engine.hooks",
    "AgentLoopConfig": "config",
    "AgenticFold": "context.agentic_fold",
    "ApprovalAnswer": "model.permission_spec",
    "AssistantMessage": "model.messages",
    "CancellationRequested": "model.errors",
    "CancellationToken": "ports.cancellation",
    "FilePart": "model.messages",
    "FollowUpQueued": "core.result",
    "HookDirective": "ports.hook_points",
    "HookPoint": "ports.hook_points",
    "ImagePart": "model.messages",
    "InputNeeded": "ports.tool",
    "LLMProviderConfig": "transports.provider_config",
    "LLMRequest": "ports.llm",
    "LLMResponse": "ports.llm",
    "LLMRetryExhausted": "model.errors",
    "LLMRetryPolicy": "config",
    "LLMService": "ports.llm",
    "LLMStreamChunk": "ports.llm",
    "LLMSummaryFold": "context.summary_fold",
    "LLMTimeout": "model.errors",
    "LoopwrightError": "model.errors",
    "Message": "model.messages",
    "PermissionPolicy": "model.permission_spec",
    "PermissionRule": "model.permission_spec",
    "PriceTable": "transports.price_table",
    "ProjectedRepresentation": "context.projected",
    "SchemaPolicy": "ports.schema_policy",
    "SessionBusyError": "model.errors",
    "SessionFencedError": "model.errors",
    "SessionNotFoundError": "model.errors",
    "SessionPendingError": "model.errors",
    "SessionStore": "ports.store_admin",
    "StatefulAgentLoop": "loop",
    "StatefulResult": "core.result",
    "StructuredOutputSpec": "model.specs",
    "TextPart": "model.messages",
    "ToolCall": "model.messages",
    "ToolContext": "ports.tool",
    "ToolDefinition": "ports.tool",
    "ToolFailure": "model.call_errors",
    "ToolHandlerResult": "ports.tool",
    "ToolRegistry": "tools.registry",
    "Usage": "model.usage",
    "UserMessage": "model.messages",
    "VerbatimRepresentation": "context.verbatim",
    "WorkerSettings": "config",
    "create_default_tool_registry": "tools.presets",
    "create_llm_service_from_config": "transports.service_factory",
    "create_llm_service_from_env": "transports.service_factory",
    "load_permissions": "context.permission_file",
    "open_store": "stores.dsn",
    "run_sync": "loop",
    "tool": "tools.decorator",
}
"""Where each public name lives."""

__version__ = "0.1.0"

__all__ = [
    "AgentEvent",
    "AgentEventBus",
    "AgentEventType",
    "AgentHooks",
    "AgentLoopConfig",
    "AgenticFold",
    "ApprovalAnswer",
    "AssistantMessage",
    "CancellationRequested",
    "CancellationToken",
    "FilePart",
    "FollowUpQueued",
    "HookDirective",
    "HookPoint",
    "ImagePart",
    "InputNeeded",
    "LLMProviderConfig",
    "LLMRequest",
    "LLMResponse",
    "LLMRetryExhausted",
    "LLMRetryPolicy",
    "LLMService",
    "LLMStreamChunk",
    "LLMSummaryFold",
    "LLMTimeout",
    "LoopwrightError",
    "Message",
    "PermissionPolicy",
    "PermissionRule",
    "PriceTable",
    "ProjectedRepresentation",
    "SchemaPolicy",
    "SessionBusyError",
    "SessionFencedError",
    "SessionNotFoundError",
    "SessionPendingError",
    "SessionStore",
    "StatefulAgentLoop",
    "StatefulResult",
    "StructuredOutputSpec",
    "TextPart",
    "ToolCall",
    "ToolContext",
    "ToolDefinition",
    "ToolFailure",
    "ToolHandlerResult",
    "ToolRegistry",
    "Usage",
    "UserMessage",
    "VerbatimRepresentation",
    "WorkerSettings",
    "create_default_tool_registry",
    "create_llm_service_from_config",
    "create_llm_service_from_env",
    "load_permissions",
    "open_store",
    "run_sync",
    "tool",
]


def __getattr__(name: str) -> Any:
    home = _HOME.get(name)
    if home is None:
        raise AttributeError(f"module 'loopwright' has no attribute {name!r}")
    value = getattr(importlib.import_module(f".{home}", __name__), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
