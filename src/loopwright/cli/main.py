"""The entry point of the command `loopwright`.

Owns: saying which extra is missing. Must not know: any command.
Read next: `application.py`.
"""

from __future__ import annotations

import sys
from collections.abc import Callable

from .standard_streams import guard_streams

WITHOUT_EXTRA = (
    "loopwright: the command line needs typer and rich; install the extra: pip install 'loopwright[cli]'"
    " (from a clone: pip install '.[cli]')\n"
)

run_application: Callable[[list[str] | None], None] | None
try:
    from .application import run_application
except ModuleNotFoundError as error:
    if (error.name or "").partition(".")[0] not in ("typer", "rich"):
        raise
    run_application = None


def main() -> None:
    """Runs the command with the arguments of this process and exits."""
    guard_streams()
    if run_application is None:
        sys.stderr.write(WITHOUT_EXTRA)
        sys.exit(2)
    run_application(None)
