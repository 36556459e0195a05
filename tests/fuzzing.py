"""How many cases a property is tried with: few in every run of the tests, many in `./dev fuzz`.

Mark such a test with `@pytest.mark.fuzz` and write `@settings(max_examples=examples(60))`.
"""

from __future__ import annotations

import os

MANY = 10_000
"""Cases of each property in `./dev fuzz`, unless `LOOPWRIGHT_FUZZ` is another number above 1."""


def examples(few: int) -> int:
    """`few`, or what `./dev fuzz` asks for."""
    asked = os.environ.get("LOOPWRIGHT_FUZZ", "")
    if not asked:
        return few
    return int(asked) if asked.isdecimal() and int(asked) > 1 else MANY
