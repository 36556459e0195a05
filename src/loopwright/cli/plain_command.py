"""Help texts in plain words: `ID` and `N` instead of `{ID}`, `<str>` and `[x>=1]`.

Owns: how usage and arguments are written. Must not know: any command.
Read next: `application.py`.
"""

from __future__ import annotations

import re
from typing import Any, Final

from typer.core import TyperCommand

_TYPES: Final = re.compile(r" <(str|list\[str\])>")


class PlainCommand(TyperCommand):
    """A command whose help has no types."""

    def collect_usage_pieces(self, ctx: Any) -> list[str]:
        """The words after the command's name in its usage line."""
        return [re.sub(r"\{(.+)\}", r"\1", piece) for piece in super().collect_usage_pieces(ctx)]

    def get_help(self, ctx: Any) -> str:
        """The whole help text."""
        return _TYPES.sub("", super().get_help(ctx)).replace("x>=1]", "at least 1]")
