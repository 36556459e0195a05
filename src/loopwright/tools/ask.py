"""The tool through which a model asks a person.

Owns: `request_user_input`. Must not know: how the run pauses and who answers.
Read next: `../ports/tool.py` (`InputNeeded`).
"""

from __future__ import annotations

from typing import Any, Literal

from ..model.call_errors import ToolFailure
from ..ports.tool import InputNeeded, ToolDefinition
from .decorator import tool
from .descriptions import description_of


def request_user_input_tool() -> ToolDefinition:
    """`request_user_input`: the run pauses until a person answers; the answer is the result. Effect pure: asking is no deed."""

    @tool(description=description_of("request_user_input"), effect="pure", touches="session")
    async def request_user_input(
        prompt: str,
        kind: Literal["text", "choice", "confirm", "form"] = "text",
        options: list[str] | None = None,
        metadata: dict[str, Any] | None = None,
    ) -> InputNeeded:
        """Ask a person.

        Args:
            prompt: The question, with all that the person needs to answer it.
            kind: text for free text, choice for one of the options, confirm for yes or no, form for several fields.
            options: The choices; needed for kind choice.
            metadata: Anything else that the person's program should get.
        """
        if not prompt.strip():
            raise ToolFailure("the prompt is empty; write the question")
        if kind == "choice" and not options:
            raise ToolFailure("kind choice needs options; list the choices")
        schema: dict[str, Any] | None = {"type": "boolean"} if kind == "confirm" else None
        if kind == "choice":
            schema = {"enum": options}
        return InputNeeded(prompt, kind, tuple(options or ()), schema, metadata or {})

    return request_user_input
