"""Guardrails: checks on what goes in and comes out of a model, as hooks; loaded when used.

Owns: the public names of `loopwright.guardrails`, resolved on first use. Must not know: the engine.
Read next: `guarding.py`, `docs/guardrails.md`.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ..model.call_errors import GuardrailBlockedError
    from .guarding import Guardrails, install_guardrails
    from .injection import InjectionMarking
    from .plain_checks import PatternBlock, SizeLimit
    from .redaction import SecretRedaction
    from .verdicts import Checked, Guardrail, GuardrailVerdict, Stage, allow, annotate, block, rewrite, rewrite_value

_HOME = {
    "Checked": ".verdicts",
    "Guardrail": ".verdicts",
    "GuardrailBlockedError": "..model.call_errors",
    "Guardrails": ".guarding",
    "InjectionMarking": ".injection",
    "PatternBlock": ".plain_checks",
    "SecretRedaction": ".redaction",
    "SizeLimit": ".plain_checks",
    "Stage": ".verdicts",
    "GuardrailVerdict": ".verdicts",
    "allow": ".verdicts",
    "annotate": ".verdicts",
    "block": ".verdicts",
    "install_guardrails": ".guarding",
    "rewrite": ".verdicts",
    "rewrite_value": ".verdicts",
}

__all__ = [
    "Checked",
    "Guardrail",
    "GuardrailBlockedError",
    "GuardrailVerdict",
    "Guardrails",
    "InjectionMarking",
    "PatternBlock",
    "SecretRedaction",
    "SizeLimit",
    "Stage",
    "allow",
    "annotate",
    "block",
    "install_guardrails",
    "rewrite",
    "rewrite_value",
]


def __getattr__(name: str) -> Any:
    home = _HOME.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(home, __name__), name)


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
