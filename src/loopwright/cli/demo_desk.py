"""What the demonstration is about: a small office with notes to read, an invoice to pay and a letter to post.

Owns: the folder, the task, the tools that act on the folder, and the offline model that does the work.
Must not know: processes. Read next: `demo_worker.py`, `demo.py`.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
from pathlib import Path
from typing import Final

import msgspec

from ..model.usage import Usage
from ..ports.llm import LLMResponse
from ..ports.tool import ToolContext
from ..testing.model_server import Reply, ServedRequest, reply
from ..tools.decorator import tool
from ..tools.presets import create_default_tool_registry
from ..tools.registry import ToolRegistry

NOTES: Final = {
    "monday.md": "# Monday\nPaper and coffee for the office: 12.40 EUR, paid in cash.\n"
    "Invoice R-1001 of Nordlicht over 48.50 EUR came in. It is due this week and not paid yet.\n",
    "tuesday.md": "# Tuesday\nTrain to Hamburg and back: 37.90 EUR, paid by card.\n",
    "wednesday.md": "# Wednesday\nMrs Albers asks for a letter that confirms her repair. Nobody has written it yet.\n",
}
TASK: Final = (
    "Read all notes in notes/. Then, in one step and with two parallel tool calls, pay the invoice that is not paid yet"
    " and post the letter that somebody asks for; do each exactly once. If you are told that it is unknown whether a"
    " letter went out, read outbox.txt before you do anything else, and post it again only if it is not there."
    " At last write summary.md: one line a note, the total of all amounts in EUR, and what you did."
)
TOTAL: Final = "98.80"
"""12.40 + 48.50 + 37.90."""
LEDGER: Final = "ledger.txt"
OUTBOX: Final = "outbox.txt"
SUMMARY: Final = "summary.md"
CONFIRMATION_S: Final = 30.0
"""How long the post office takes to confirm: the process is killed while the tool waits for it."""


def make_desk(folder: Path) -> None:
    """Puts the notes into an empty folder."""
    (folder / "notes").mkdir(parents=True)
    for name, text in NOTES.items():
        (folder / "notes" / name).write_text(text, encoding="utf-8")


def desk_tools(folder: Path) -> ToolRegistry:
    """The file tools of the `core` preset, and the two that touch the world outside of the journal."""

    @tool(effect="once", timeout_s=10)
    async def pay_invoice(invoice: str, cents: int, ctx: ToolContext) -> str:
        """Pay an invoice. Money leaves the account at once.

        Args:
            invoice: Number of the invoice.
            cents: Amount in cents.
        """
        _append(folder / LEDGER, f"paid {invoice} {cents} cents, key {ctx.idempotency_key[:12]}")
        return f"paid {invoice}: {cents / 100:.2f} EUR"

    @tool(effect="once", timeout_s=CONFIRMATION_S + 30)
    async def post_letter(to: str, text: str, ctx: ToolContext) -> str:
        """Post a letter and wait for the confirmation of the post office, which takes half a minute.

        Args:
            to: Who gets it.
            text: What it says.
        """
        _append(folder / OUTBOX, f"letter to {to}: {' '.join(text.split())}")
        await asyncio.sleep(CONFIRMATION_S)
        return "posted and confirmed"

    registry = create_default_tool_registry(
        "core", workspace=folder, allow_bash=False, exclude=["apply_patch", "request_user_input", "read_output"]
    )
    for own in (pay_invoice, post_letter):
        registry.register(own)
    return registry


def _append(path: Path, line: str) -> None:
    with path.open("a", encoding="utf-8") as file:
        file.write(line + "\n")
        file.flush()
        os.fsync(file.fileno())


def desk_clerk(request: ServedRequest) -> Reply:
    """The offline model: it decides from the conversation alone, as any model does."""
    said = _decide(request)
    asked = len(json.dumps(request.body)) // 4
    wrote = len(said.text) // 4 + sum(len(call.arguments) // 4 + 8 for call in said.tool_calls)
    return msgspec.structs.replace(said, usage=Usage(input_tokens=asked, output_tokens=wrote, calls=1))


def _decide(request: ServedRequest) -> LLMResponse:
    results = [text for role, text in request.turns if role == "tool"]
    steps = sum(1 for role, _ in request.turns if role == "assistant")
    names = [name for name in NOTES if any(name in text for text in results[:1])]
    if steps == 0:
        return reply("I look at what is there.", ("glob", {"pattern": "notes/*.md"}))
    if steps == 1:
        return reply(f"{len(names)} notes; I read them.", *[("read_file", {"path": f"notes/{name}"}) for name in names])
    if steps == 2:
        letter = {"to": "Mrs Albers", "text": "We confirm that your repair is done."}
        pay = {"invoice": "R-1001", "cents": 4850}
        return reply("I pay R-1001 and post the letter.", ("pay_invoice", pay), ("post_letter", letter))
    written = any(SUMMARY in text for text in results)
    if written:
        return reply("Done: invoice R-1001 is paid, the letter to Mrs Albers is out, summary.md is written.")
    unknown = any("may or may not have happened" in text for text in results)
    looked = sum(1 for text in results if "letter to Mrs Albers" in text)
    if unknown and not looked:
        return reply(
            "I do not know whether the letter went out, so I look before I do anything.",
            ("read_file", {"path": OUTBOX}),
        )
    found = "The letter is in the outbox: I do not post it again. " if unknown else ""
    return reply(found + "I write the summary.", ("write_file", {"path": SUMMARY, "content": _summary(results)}))


def _summary(results: list[str]) -> str:
    amounts = [float(amount) for text in results[1:4] for amount in re.findall(r"(\d+\.\d\d) EUR", text)]
    return (
        "# Summary\n- Monday: paper and coffee; invoice R-1001 came in\n- Tuesday: train to Hamburg\n"
        "- Wednesday: Mrs Albers asks for a letter\n\n"
        f"Total: {sum(amounts):.2f} EUR\nDone: invoice R-1001 paid, letter to Mrs Albers posted.\n"
    )
