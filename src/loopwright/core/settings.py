"""Whether the values of a settings struct are of the types that it declares.

Owns: the check. Must not know: any setting. Why: msgspec structs do not check on construction, and a wrong type found in
the middle of a run costs more than a message at its start.
Read next: `config.py`.
"""

from __future__ import annotations

import math

import msgspec


def type_problems(settings: msgspec.Struct, *, unchecked: frozenset[str] = frozenset()) -> dict[str, str]:
    """Field → one sentence, for each whose value is of another type or not a finite number; `unchecked` are left out."""
    problems: dict[str, str] = {}
    if _is_default(settings):
        return problems
    for field in msgspec.structs.fields(settings):
        value = getattr(settings, field.name)
        if field.name in unchecked:
            continue
        if isinstance(value, float) and not math.isfinite(value):
            problems[field.name] = f"{field.name} must be a finite number, not {value}"
            continue
        try:
            msgspec.convert(value, field.type)
        except msgspec.ValidationError as error:
            problems[field.name] = f"{field.name}: {error}"
    return problems


def _is_default(settings: msgspec.Struct) -> bool:
    """True when nothing was set, as in most processes: defaults are of their types, and reading types takes longer."""
    values = [getattr(settings, name) for name in settings.__struct_fields__]
    defaults = settings.__struct_defaults__
    return len(values) == len(defaults) and all(v is d for v, d in zip(values, defaults, strict=True))
