"""Records of what a model sees, on one line each.

Owns: the words for them. Must not know: stores, screens.
Read next: `journal_lines.py`.
"""

from __future__ import annotations

from ..model.context_records import (
    ContextRecord,
    CostReserved,
    CostSettled,
    FoldFailed,
    FoldMade,
    FoldTrigger,
    NoteWritten,
    PromptEpochStarted,
    SendProjected,
    TodoWritten,
    TokensCalibrated,
)

NANODOLLARS = 1_000_000_000

FOLD_REASONS: dict[FoldTrigger, str] = {
    "ratio": "near its budget",
    "budget": "over its budget",
    "overflow": "too long for the provider",
    "asked": "asked for by the host",
}


def context_words(record: ContextRecord) -> str:
    """What the record says."""
    match record:
        case PromptEpochStarted():
            return f"epoch {record.number}: {record.reason}; tools: {len(record.tools)}"
        case SendProjected():
            return f"send #{record.send} shown as {record.representation} {record.version}"
        case FoldMade():
            more = f" and its first {record.rounds} replies" if record.rounds else ""
            size = f"{record.tokens_before} → {record.tokens_after} tokens"
            return f"everything before #{record.through}{more} is one note; {size}; {FOLD_REASONS[record.trigger]}"
        case FoldFailed():
            return f"{record.error_code}: {record.message}"
        case NoteWritten():
            pinned = " (pinned)" if record.pinned else ""
            return f"{record.note_id}{pinned}: {record.content if record.content is not None else 'removed'}"
        case TodoWritten():
            done = sum(item.status == "done" for item in record.items)
            return f"{done} of {len(record.items)} done"
        case TokensCalibrated():
            return f"{record.model}: {record.ratio:.3f} of the estimate, learned from {record.samples}"
        case CostReserved():
            return f"{record.nanodollars / NANODOLLARS:.6f} USD for the next call"
        case CostSettled():
            return f"{record.nanodollars / NANODOLLARS:.6f} USD, {record.how}"
