"""What all commands have in common: help texts in plain words, and how an error that reached the top is said.

Owns: `ID` and `N` in usage lines instead of `{ID}`, `<str>` and `[x>=1]`; the line of a typed error. Must not know: any command.
Read next: `exit_codes.py`.
"""

from __future__ import annotations

import re
import sys
from typing import Any, Final

from typer.core import TyperCommand

from ..model.errors import LoopwrightError, StoreSchemaError
from .agent_setup import AgentSettings
from .exit_codes import code_of_error, words_of

_REPEATED: Final = ("db", "base_url", "agent", "allow_bash", "sandbox", "mcp", "mode")
_TYPES: Final = re.compile(r" <(str|path|list\[str\])>")


class PlainCommand(TyperCommand):
    """A command whose help has no types, and whose typed errors are one message and an exit code."""

    def invoke(self, ctx: Any) -> Any:
        """Runs the command; the hints of its errors repeat the options that it was given."""
        try:
            return super().invoke(ctx)
        except LoopwrightError as error:
            given = {name: ctx.params[name] for name in _REPEATED if name in ctx.params}
            if (servers := ctx.params.get("mcp_config")) is not None:
                given["mcp_config"] = str(servers)
            text = words_of(error, AgentSettings(**given))
            if isinstance(error, StoreSchemaError):
                text = text.partition("\n")[0]
            sys.stderr.write(f"loopwright: {text}\n")
            return ctx.exit(code_of_error(error))

    def collect_usage_pieces(self, ctx: Any) -> list[str]:
        """The words after the command's name in its usage line."""
        return [re.sub(r"\{(.+)\}", r"\1", piece) for piece in super().collect_usage_pieces(ctx)]

    def get_help(self, ctx: Any) -> str:
        """The whole help text."""
        return _TYPES.sub("", super().get_help(ctx)).replace("x>=1]", "at least 1]")
