"""Small checks: how long a text is, and which words it may not hold.

Owns: `SizeLimit`, `PatternBlock`. Must not know: hooks. Read next: `verdicts.py`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence

from ..model.errors import ConfigError
from .verdicts import Checked, GuardrailVerdict, Stage, block, rewrite


class SizeLimit:
    """Bounds texts, in characters; of arguments and data those of their JSON.

    An input, arguments and data over their limit are blocked; replies, results and memories are cut, and say so.
    None: no limit. A result within the loop's own limits is cut there and kept whole; here the rest is gone.
    """

    name = "size"

    def __init__(
        self,
        *,
        input: int | None = None,  # noqa: A002 - the name of the stage
        output: int | None = None,
        arguments: int | None = None,
        result: int | None = None,
        recalled: int | None = None,
    ) -> None:
        given = {
            Stage.INPUT: input,
            Stage.OUTPUT: output,
            Stage.ARGUMENTS: arguments,
            Stage.RESULT: result,
            Stage.RECALLED: recalled,
        }
        self._limits: Mapping[Stage, int] = {stage: limit for stage, limit in given.items() if limit is not None}
        wrong = [
            f"SizeLimit({stage}={limit}): must be at least 1" for stage, limit in self._limits.items() if limit < 1
        ]
        if wrong:
            raise ConfigError(wrong)
        self.stages = frozenset(self._limits)

    def check(self, checked: Checked) -> GuardrailVerdict | None:
        """Blocks or cuts what is too long."""
        limit = self._limits.get(checked.stage)
        size = len(checked.text)
        if limit is None or size <= limit:
            return None
        why = f"{size} characters, over the limit of {limit}"
        cuttable = checked.place in ("text", "reasoning", "file") and checked.stage is not Stage.INPUT
        if checked.structured or not cuttable:
            return block(f"the {checked.stage} has {why}")
        return rewrite(f"{checked.text[:limit]}\n[cut: {why}]", why)


class PatternBlock:
    """Blocks texts in which one of `patterns` (regular expressions, letters of either case) is found.

    `reason` is what is told, without the text that matched. Of arguments and data each text is looked through by itself.
    A pattern is yours: one that can repeat the same thing in two ways may take for ever on a hostile text.
    Raises: `ConfigError` naming every pattern that is none.
    """

    def __init__(
        self,
        patterns: Sequence[str],
        *,
        reason: str = "it holds something that is not allowed here",
        stages: Iterable[Stage | str] = (Stage.INPUT, Stage.OUTPUT, Stage.ARGUMENTS, Stage.RESULT),
        name: str = "pattern",
    ) -> None:
        problems: list[str] = []
        self._patterns: list[re.Pattern[str]] = []
        for pattern in patterns:
            try:
                self._patterns.append(re.compile(pattern, re.IGNORECASE))
            except re.error as error:
                problems.append(f"PatternBlock: {pattern!r} is no regular expression: {error}")
        if problems:
            raise ConfigError(problems)
        self.name = name
        self.stages = frozenset(Stage(stage) for stage in stages)
        self._reason = reason

    def check(self, checked: Checked) -> GuardrailVerdict | None:
        """Blocks a text with a match."""
        texts = _texts_in(checked.value) if checked.structured else [checked.text]
        if any(pattern.search(text) for text in texts for pattern in self._patterns):
            return block(self._reason)
        return None


def _texts_in(value: object) -> list[str]:
    """Every text of a JSON value, names of fields included."""
    texts: list[str] = []
    todo: list[object] = [value]
    while todo:
        one = todo.pop()
        if isinstance(one, str):
            texts.append(one)
        elif isinstance(one, Mapping):
            todo += [*one.keys(), *one.values()]
        elif isinstance(one, list | tuple):
            todo += one
    return texts
