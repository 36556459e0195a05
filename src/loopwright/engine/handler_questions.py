"""What the handler of a call asks: the answer where there is one, else the way out of the handler.

Owns: which answer belongs to which question of a run of the handler. Must not know: what is stored (`call_waits.py`), who
answers (`answers.py`). Loaded with the first question of a handler. Read next: `core/questions.py`.
"""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from ..core import questions
from ..core.calls import text_of
from ..core.state import OpenCall
from ..model.errors import UsageError
from ..ports.tool import InputNeeded
from .handler_context import CallMustAsk


class CallQuestions:
    """The questions of one run of a handler. Answers are found by the words of the question, in the order of the answers."""

    def __init__(self, call: OpenCall, validate: questions.Validate) -> None:
        self._call = call
        self._validate = validate
        given = call.asking.replies if call.asking is not None else ()
        self._left = [(questions.digest_of_asked(question), value) for question, value in given]
        self._asked = len(given)

    def answer(self, needed: InputNeeded) -> Any:
        """The answer. Raises `CallMustAsk` when there is none yet, `UsageError` when this cannot be asked."""
        needed = self._whole(needed)
        digest = questions.digest_of(needed)
        for place, (asked, value) in enumerate(self._left):
            if asked == digest:
                del self._left[place]
                return value
        if self._asked >= questions.MAX_ASKED:
            raise UsageError(
                f"call {self._call.call.id!r} asked {self._asked} questions, and one more; at most {questions.MAX_ASKED} are"
                " asked in one call. Are the words different each time the handler runs?"
            )
        raise CallMustAsk(needed)

    def _whole(self, needed: InputNeeded) -> InputNeeded:
        """The question as it is stored. Raises `UsageError`."""
        options = tuple([text_of(option) for option in needed.options])
        if needed.kind == "choice" and not options:
            raise UsageError("a question of kind choice needs options")
        if needed.kind == "approval":
            raise UsageError("a handler cannot ask for the approval of its own call; ask with kind confirm")
        schema = needed.schema if needed.schema is not None else questions.schema_of_kind(needed.kind, options)
        whole = replace(needed, prompt=text_of(needed.prompt), options=options, schema=schema)
        if (why := questions.asking_problem(whole, self._validate)) is not None:
            raise UsageError(f"call {self._call.call.id!r} cannot ask this: {why}")
        return whole
