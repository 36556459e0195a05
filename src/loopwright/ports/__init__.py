"""Seams: one Protocol a file, frozen values in and out, with the promise written on it.

Owns: what an implementer must keep; the public names of `loopwright.ports`, resolved on first use. Must not know: any implementer.
Read next: `store.py`, `llm.py`, `tool.py`, `hook.py`.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .ambient import Ambient, RealAmbient
    from .artifact import Artifact, ArtifactStore
    from .board import Board, BoardChange, BoardEntry, BoardPolicy, BoardPost, put_if
    from .cancellation import CancellationToken
    from .cron_reader import CronReader
    from .executor import Executor, LeafEnd, LeafRef
    from .fold import FoldDesk, FoldedPart, FoldResult, FoldStrategy, FoldTask
    from .history import HistoryPiece, SessionHistory
    from .hook import HookContext
    from .hook_points import HookDirective, HookPoint
    from .ledger import BudgetAccount, Ledger
    from .llm import LLMRequest, LLMResponse, LLMService, LLMStreamChunk
    from .memory import MemoryProvider, MemorySnapshot, RecalledMemory
    from .memory_index import MemoryEntry, MemoryHit, MemoryIndex
    from .note_book import NoteBook, SessionLists, TodoList
    from .prices import Prices
    from .prompt_source import PromptProblem, PromptSections, PromptSource
    from .representation import FinishedSend, Representation
    from .schema_policy import SchemaPolicy
    from .sealing import SealedStore, SealingKeys
    from .settling import Settling
    from .shell import ShellBackend, ShellLaunch
    from .skill_source import LoadedSkill, SkillSource, SkillSummary
    from .store import ForkPoint, Head, InboxItem, NewSession, SessionQuery, Store, Transition
    from .store_admin import SessionStore, StoreAdmin
    from .store_transfer import StoreTransfer
    from .store_upkeep import StoreUpkeep
    from .timer_book import TimedSession, TimerBook
    from .token_counter import TokenCounter
    from .tool import InputNeeded, OutputSlice, ToolContext, ToolDefinition, ToolSource, UnknownOutcome
    from .tool_retry import ToolRetry
    from .transaction_work import OnCommit, TransactionCursor, TransactionHost
    from .wake_source import WakeSource

_HOME = {
    "Ambient": "ambient",
    "Artifact": "artifact",
    "ArtifactStore": "artifact",
    "Board": "board",
    "BoardChange": "board",
    "BoardEntry": "board",
    "BoardPolicy": "board",
    "BoardPost": "board",
    "BudgetAccount": "ledger",
    "CancellationToken": "cancellation",
    "CronReader": "cron_reader",
    "Executor": "executor",
    "FinishedSend": "representation",
    "FoldDesk": "fold",
    "FoldResult": "fold",
    "FoldStrategy": "fold",
    "FoldTask": "fold",
    "FoldedPart": "fold",
    "ForkPoint": "store",
    "Head": "store",
    "HistoryPiece": "history",
    "HookContext": "hook",
    "HookDirective": "hook_points",
    "HookPoint": "hook_points",
    "InboxItem": "store",
    "InputNeeded": "tool",
    "LLMRequest": "llm",
    "LLMResponse": "llm",
    "LLMService": "llm",
    "LLMStreamChunk": "llm",
    "LeafEnd": "executor",
    "LeafRef": "executor",
    "Ledger": "ledger",
    "LoadedSkill": "skill_source",
    "MemoryEntry": "memory_index",
    "MemoryHit": "memory_index",
    "MemoryIndex": "memory_index",
    "MemoryProvider": "memory",
    "MemorySnapshot": "memory",
    "NewSession": "store",
    "NoteBook": "note_book",
    "OnCommit": "transaction_work",
    "OutputSlice": "tool",
    "Prices": "prices",
    "PromptProblem": "prompt_source",
    "PromptSections": "prompt_source",
    "PromptSource": "prompt_source",
    "RealAmbient": "ambient",
    "RecalledMemory": "memory",
    "Representation": "representation",
    "SchemaPolicy": "schema_policy",
    "SealedStore": "sealing",
    "SealingKeys": "sealing",
    "SessionLists": "note_book",
    "SessionHistory": "history",
    "SessionQuery": "store",
    "SessionStore": "store_admin",
    "Settling": "settling",
    "ShellBackend": "shell",
    "ShellLaunch": "shell",
    "SkillSource": "skill_source",
    "SkillSummary": "skill_source",
    "Store": "store",
    "StoreAdmin": "store_admin",
    "StoreTransfer": "store_transfer",
    "StoreUpkeep": "store_upkeep",
    "TimedSession": "timer_book",
    "TimerBook": "timer_book",
    "TokenCounter": "token_counter",
    "TodoList": "note_book",
    "ToolContext": "tool",
    "ToolDefinition": "tool",
    "ToolRetry": "tool_retry",
    "ToolSource": "tool",
    "TransactionCursor": "transaction_work",
    "TransactionHost": "transaction_work",
    "Transition": "store",
    "UnknownOutcome": "tool",
    "WakeSource": "wake_source",
    "put_if": "board",
}

__all__ = [
    "Ambient",
    "Artifact",
    "ArtifactStore",
    "Board",
    "BoardChange",
    "BoardEntry",
    "BoardPolicy",
    "BoardPost",
    "BudgetAccount",
    "CancellationToken",
    "CronReader",
    "Executor",
    "FinishedSend",
    "FoldDesk",
    "FoldResult",
    "FoldStrategy",
    "FoldTask",
    "FoldedPart",
    "ForkPoint",
    "Head",
    "HistoryPiece",
    "HookContext",
    "HookDirective",
    "HookPoint",
    "InboxItem",
    "InputNeeded",
    "LLMRequest",
    "LLMResponse",
    "LLMService",
    "LLMStreamChunk",
    "LeafEnd",
    "LeafRef",
    "Ledger",
    "LoadedSkill",
    "MemoryEntry",
    "MemoryHit",
    "MemoryIndex",
    "MemoryProvider",
    "MemorySnapshot",
    "NewSession",
    "NoteBook",
    "OnCommit",
    "OutputSlice",
    "Prices",
    "PromptProblem",
    "PromptSections",
    "PromptSource",
    "RealAmbient",
    "RecalledMemory",
    "Representation",
    "SchemaPolicy",
    "SealedStore",
    "SealingKeys",
    "SessionHistory",
    "SessionLists",
    "SessionQuery",
    "SessionStore",
    "Settling",
    "ShellBackend",
    "ShellLaunch",
    "SkillSource",
    "SkillSummary",
    "Store",
    "StoreAdmin",
    "StoreTransfer",
    "StoreUpkeep",
    "TimedSession",
    "TimerBook",
    "TodoList",
    "TokenCounter",
    "ToolContext",
    "ToolDefinition",
    "ToolRetry",
    "ToolSource",
    "TransactionCursor",
    "TransactionHost",
    "Transition",
    "UnknownOutcome",
    "WakeSource",
    "put_if",
]


def __getattr__(name: str) -> Any:
    home = _HOME.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f".{home}", __name__), name)


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
