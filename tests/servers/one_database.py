"""One database for many runs, of a crash matrix or of tests: emptied before each, so that its tables are made once.

Owns: emptying. Must not know: what the tables hold, except that `lw_schema` says which version they have.
"""

from __future__ import annotations

from collections.abc import Callable

from tests.servers.asking import ask
from tests.servers.client import blocking

TABLES = "SELECT table_name FROM information_schema.tables WHERE table_name LIKE 'lw!_%' ESCAPE '!' AND table_schema = "


def emptied(dsn: str) -> Callable[[int], str]:
    """The address for a run, as `crash_matrix` takes it: a store of which only the tables are left.

    Rows are deleted and files stay: that takes a server a fiftieth of the time for new tables.
    """
    deletes: list[str] = []
    home = "'public'" if dsn.startswith("postgresql:") else "DATABASE()"

    def address(run: int) -> str:
        if not deletes and run > 1:
            names = [name for (name,) in blocking(ask(dsn, TABLES + home)) if name != "lw_schema"]
            deletes.extend(f"DELETE FROM {name}" for name in names)
        if deletes:
            blocking(ask(dsn, *deletes))
        return dsn

    return address
