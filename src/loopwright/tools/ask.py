"""The tool through which a model asks a person.

Owns: `request_user_input`. Must not know: how the run pauses and who answers.
Read next: `../ports/tool.py` (`InputNeeded`), `../core/questions.py`.
"""

from __future__ import annotations

from typing import Any, Literal

from ..core.questions import as_form, form_problems, schema_of_kind
from ..model.call_errors import ToolFailure
from ..ports.tool import InputNeeded, ToolDefinition
from .decorator import tool
from .descriptions import description_of

_EXAMPLE = '{"type": "object", "properties": {"name": {"type": "string"}, "seats": {"type": "integer", "minimum": 1}}, "required": ["name"]}'


def request_user_input_tool() -> ToolDefinition:
    """`request_user_input`: the run pauses until a person answers; the answer is the result. Effect pure: asking is no deed."""

    @tool(description=description_of("request_user_input"), effect="pure", touches="session")
    async def request_user_input(
        prompt: str,
        kind: Literal["text", "choice", "confirm", "form"] = "text",
        options: list[str] | None = None,
        schema: dict[str, Any] | None = None,
        metadata: dict[str, Any] | None = None,
    ) -> InputNeeded:
        """Ask a person.

        Args:
            prompt: The question, with all that the person needs to answer it.
            kind: text for free text, choice for one of the options, confirm for yes or no, form for several fields.
            options: The choices; needed for kind choice, and only there.
            schema: The fields; needed for kind form, and only there: a JSON Schema of type object whose properties are
                string, number, integer or boolean, or have an enum.
            metadata: Anything else that the person's program should get.
        """
        if not prompt.strip():
            raise ToolFailure("the prompt is empty; write the question")
        if kind == "form":
            return InputNeeded(prompt, kind, (), _form(schema), metadata or {})
        if schema is not None:
            raise ToolFailure(f"schema belongs to kind form, not to kind {kind}; leave it out or ask with kind form")
        if kind == "choice" and not _usable(options):
            raise ToolFailure("kind choice needs options; list the choices, each once and none empty")
        chosen = tuple(options or ()) if kind == "choice" else ()
        return InputNeeded(prompt, kind, chosen, schema_of_kind(kind, chosen), metadata or {})

    return request_user_input


def _form(schema: dict[str, Any] | None) -> dict[str, Any]:
    if schema is None:
        raise ToolFailure(f"kind form needs a schema of its fields, for example {_EXAMPLE}")
    if problems := form_problems(schema):
        raise ToolFailure(f"the schema is no flat form: {'; '.join(problems[:10])}; an example: {_EXAMPLE}")
    return as_form(schema)


def _usable(options: list[str] | None) -> bool:
    if not options or not all(option.strip() for option in options):
        return False
    return len(set(options)) == len(options)
