"""Seams: one Protocol a file, frozen values in and out, with the promise written on it.

Owns: what an implementer must keep. Must not know: any implementer.
Read next: `store.py`, `llm.py`, `tool.py`, `hook.py`.
"""

from .ambient import Ambient, RealAmbient
from .artifact import Artifact, ArtifactStore
from .cancellation import CancellationToken
from .hook import HookContext, HookDirective, HookPoint
from .llm import LLMRequest, LLMResponse, LLMService, LLMStreamChunk
from .settling import Settling
from .shell import ShellBackend, ShellLaunch
from .store import Head, InboxItem, NewSession, SessionQuery, Store, Transition
from .store_admin import SchemaPolicy, SessionStore, StoreAdmin
from .tool import InputNeeded, ToolContext, ToolDefinition, ToolSource, UnknownOutcome

__all__ = [
    "Ambient",
    "Artifact",
    "ArtifactStore",
    "CancellationToken",
    "Head",
    "HookContext",
    "HookDirective",
    "HookPoint",
    "InboxItem",
    "InputNeeded",
    "LLMRequest",
    "LLMResponse",
    "LLMService",
    "LLMStreamChunk",
    "NewSession",
    "RealAmbient",
    "SchemaPolicy",
    "SessionQuery",
    "SessionStore",
    "Settling",
    "ShellBackend",
    "ShellLaunch",
    "Store",
    "StoreAdmin",
    "ToolContext",
    "ToolDefinition",
    "ToolSource",
    "Transition",
    "UnknownOutcome",
]
