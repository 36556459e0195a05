"""Rules of questions to people: what may be asked, what is a form, what is an answer.

Owns: bounds of questions, flat forms, which answer fits which question. Must not know: who asks, how anybody is shown it.
Loaded with the first question. Read next: `engine/call_waits.py`, `engine/answers.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, TypeGuard, cast

from ..late import Late
from ..model.codec import encode
from ..model.errors import ConfigError
from ..model.records import Interaction
from ..ports.tool import InputNeeded

if TYPE_CHECKING:
    import hashlib
else:
    hashlib = Late("hashlib")

MAX_PROMPT: Final = 20_000
"""Characters of a question."""
MAX_OPTIONS: Final = 200
MAX_OPTION: Final = 1_000
"""Characters of one choice."""
MAX_FIELDS: Final = 50
"""Fields of a form that a model wrote."""
MAX_EXTRA: Final = 64 * 1024
"""Bytes of the schema, and of the metadata of a question, as JSON."""
MAX_ANSWER: Final = 256 * 1024
"""Bytes of an answer that goes back to a handler, as JSON."""
MAX_ASKED: Final = 32
"""Questions of the handler of one call."""

ACTIONS: Final = ("accept", "decline", "cancel")
"""What a person may do with an elicitation; only the first one has content."""

FIELD_TYPES: Final = ("string", "number", "integer", "boolean")

_FORM_WORDS: Final = frozenset({"type", "title", "description", "properties", "required", "additionalProperties"})
_FIELD_WORDS: Final = frozenset(
    {"type", "title", "description", "default", "enum", "format", "pattern", "minLength", "maxLength"}
    | {"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"}
)

Validate = Callable[[dict[str, Any], Any], str | None]
"""Why a value does not fit a JSON Schema, naming the path; None when it does. Raises `ConfigError` for no schema."""


def asking_problem(needed: InputNeeded, validate: Validate) -> str | None:
    """Why this cannot be asked; None when it can. An approval shows the arguments of its call, which have a bound of their own."""
    if needed.kind == "approval":
        return None
    if not needed.prompt.strip():
        return "the question is empty"
    if len(needed.prompt) > MAX_PROMPT:
        return f"the question has {len(needed.prompt):,} characters; at most {MAX_PROMPT:,} can be asked"
    if len(needed.options) > MAX_OPTIONS or any(len(option) > MAX_OPTION for option in needed.options):
        return f"there may be {MAX_OPTIONS} options of {MAX_OPTION:,} characters each"
    for what, value in (("schema", needed.schema), ("metadata", needed.metadata)):
        if (why := _extra_problem(what, value)) is not None:
            return why
    try:
        if needed.schema is not None:
            validate(needed.schema, None)
    except ConfigError as error:
        return str(error)
    return None


def _extra_problem(what: str, value: object) -> str | None:
    try:
        size = len(encode(value))
    except (TypeError, ValueError, RecursionError):
        return f"the {what} of the question is not JSON"
    return None if size <= MAX_EXTRA else f"the {what} of the question has {size:,} bytes; at most {MAX_EXTRA:,}"


def answer_problem(question: Interaction, value: Any, validate: Validate) -> str | None:
    """Why `value` is no answer to `question`, with the path of what does not fit; None when it is one."""
    if question.kind == "elicitation":
        return _elicited_problem(question, value, validate)
    if question.schema is not None and (why := validate(question.schema, value)) is not None:
        return why
    if question.kind == "choice" and question.options and value not in question.options:
        return f"it must be one of {', '.join(question.options)}"
    return None


def size_problem(value: Any) -> str | None:
    """Why an answer is too large to go back to a handler: its record must hold it whole."""
    if isinstance(value, str):
        return None if len(value) <= MAX_ANSWER else f"$: {len(value):,} characters; at most {MAX_ANSWER:,}"
    try:
        size = len(encode(value))
    except (TypeError, ValueError, RecursionError):
        return None
    return None if size <= MAX_ANSWER else f"$: {size:,} bytes as JSON; at most {MAX_ANSWER:,}"


def _elicited_problem(question: Interaction, value: Any, validate: Validate) -> str | None:
    if not isinstance(value, Mapping):
        return '$: it must be an object with "action", one of accept, decline and cancel, and with accept "content"'
    given = cast("Mapping[str, Any]", value)
    if given.get("action") not in ACTIONS:
        return f"$.action: it must be one of {', '.join(ACTIONS)}"
    if unknown := sorted(set(given) - {"action", "content"}):
        return f"$: unknown {', '.join(unknown)}"
    if given["action"] != "accept":
        return None if given.get("content") is None else "$.content: only accept has content"
    if question.schema is None:
        return None
    content = given.get("content")
    why = validate(question.schema, {} if content is None else content)
    return None if why is None else why.replace("$", "$.content", 1)


def digest_of(needed: InputNeeded) -> str:
    """16 hexadecimal digits over everything that a person is shown: the same question has the same ones."""
    asked = (needed.prompt, needed.kind, needed.options, needed.schema, needed.metadata)
    return hashlib.sha256(encode(asked)).hexdigest()[:16]


def digest_of_asked(question: Interaction) -> str:
    """The same of a question that was asked."""
    return digest_of(InputNeeded(question.prompt, question.kind, question.options, question.schema, question.metadata))


def form_problems(schema: Any) -> list[str]:
    """Everything that keeps a schema from being a flat form: an object of text, numbers, yes or no, and choices."""
    if not isinstance(schema, Mapping):
        return ["$: the schema must be an object"]
    form = cast("Mapping[str, Any]", schema)
    found = [f"$: unknown keyword {word!r}" for word in sorted(set(form) - _FORM_WORDS)]
    if form.get("type", "object") != "object":
        found.append('$.type: a form is an "object"')
    fields = form.get("properties")
    if not isinstance(fields, Mapping) or not fields:
        return [*found, "$.properties: name at least one field, each with its type"]
    named = cast("Mapping[str, Any]", fields)
    if len(named) > MAX_FIELDS:
        found.append(f"$.properties: {len(named)} fields; a form has at most {MAX_FIELDS}")
    for name, field in list(named.items())[:MAX_FIELDS]:
        found += _field_problems(f"$.properties.{name}", field)
    required: Any = form.get("required", [])
    if not _is_list(required):
        return [*found, "$.required: it must be a list of field names"]
    missing = [str(name) for name in required if not isinstance(name, str) or name not in named]
    return found if not missing else [*found, f"$.required: no such field: {', '.join(missing)}"]


def _field_problems(path: str, field: Any) -> list[str]:
    if not isinstance(field, Mapping):
        return [f"{path}: it must be an object with a type"]
    given = cast("Mapping[str, Any]", field)
    found = [f"{path}: unknown keyword {word!r}" for word in sorted(set(given) - _FIELD_WORDS)]
    enum: Any = given.get("enum")
    if enum is not None and (not _is_list(enum) or not enum):
        found.append(f"{path}.enum: list the choices")
    elif enum is not None and len(enum) > MAX_OPTIONS:
        found.append(f"{path}.enum: at most {MAX_OPTIONS} choices")
    if given.get("type", None if enum is None else "string") not in FIELD_TYPES:
        found.append(f"{path}.type: one of {', '.join(FIELD_TYPES)}; a form is flat")
    return found


def _is_list(value: Any) -> TypeGuard[list[Any]]:
    return isinstance(value, list)


def as_form(schema: Mapping[str, Any]) -> dict[str, Any]:
    """A schema without `form_problems` as the form that is asked: an object without any other fields."""
    return {**schema, "type": "object", "additionalProperties": False}


def schema_of_kind(kind: str, options: Sequence[str]) -> dict[str, Any] | None:
    """The schema of an answer to a question of this kind that names none itself; None accepts any JSON value."""
    match kind:
        case "text":
            return {"type": "string"}
        case "confirm":
            return {"type": "boolean"}
        case "choice":
            return {"enum": list(options)}
        case _:
            return None
