"""Secrets do not go to the model, into the journal or into a call.

Owns: `SecretRedaction`. Must not know: how secrets are found (`core/secret_forms.py`), hooks.
Read next: `../core/secret_forms.py`, `delta_screen.py` for streamed text.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Literal, cast

from ..core.secret_forms import SHORTEST, SecretFinder, rewritten
from ..core.secret_patterns import is_secret
from ..core.secret_spans import is_secret_name, is_secret_value
from .verdicts import ALL_STAGES, Checked, GuardrailVerdict, Stage, block, rewrite, rewrite_value


class SecretRedaction:
    """Writes `[redacted:NAME]` in place of secrets, wherever they stand.

    `values`: name → value of secrets that are known. Each is found as it is, JSON-escaped, percent-encoded, in hex and (from 7
    bytes on) in base64 at any place of a longer text, also with white space or invisible characters inside.
    `shapes`: tokens of well-known shapes and private keys. `names`: values that stand under the name of a secret, such as
    `PASSWORD=…`, `"api_key": "…"`, `Authorization: …`, `https://user:…@host`.
    `arguments`: what happens to a call whose arguments hold a secret or a mark: "block" (the model is told to name the place of the
    secret instead), "rewrite" (the call gets the mark), "allow".
    It covers what happens by accident. Who means to smuggle a secret out can write it backwards: a sandbox without network is
    what stops that. Raises: `ConfigError` for a value with fewer than 6 characters that show.
    """

    name = "secrets"
    stages = ALL_STAGES

    def __init__(
        self,
        values: Mapping[str, str] | Iterable[str] = (),
        *,
        shapes: bool = True,
        names: bool = True,
        arguments: Literal["block", "rewrite", "allow"] = "block",
    ) -> None:
        known: Mapping[str, str]
        if isinstance(values, Mapping):
            known = cast("Mapping[str, str]", values)
        else:
            known = {f"secret{place}": value for place, value in enumerate(values, 1)}
        self.finder = SecretFinder(known, shapes=shapes, names=names)
        self._names = names
        self._arguments = arguments

    @classmethod
    def of_environment(
        cls, env: Mapping[str, str], *, values: Mapping[str, str] | None = None, keep: Iterable[str] = ()
    ) -> SecretRedaction:
        """With the values of all variables that look like secrets, the same ones that a shell does not get; and `values`.

        `keep` names variables that are none. Values of fewer than 6 characters are left out.
        """
        left_out = frozenset(keep)
        known = {
            name: value
            for name, value in env.items()
            if name not in left_out and is_secret(name, value) and len("".join(value.split())) >= SHORTEST
        }
        return cls({**known, **(values or {})})

    def check(self, checked: Checked) -> GuardrailVerdict | None:
        """Rewrites a text with secrets; see the class for arguments."""
        if checked.stage is Stage.ARGUMENTS:
            return self._of_call(checked)
        if checked.place == "arguments" and self._arguments == "allow":
            return None
        if checked.structured:
            return self._of_value(checked.value)
        text, found = self.finder.redacted(checked.text)
        return rewrite(text, _told(found)) if found else None

    def _of_call(self, checked: Checked) -> GuardrailVerdict | None:
        if self._arguments == "allow":
            return None
        verdict = self._of_value(checked.value)
        if self._arguments == "rewrite":
            return verdict
        if verdict is not None:
            return block(
                f"the arguments hold a secret ({verdict.said}); name the variable or file that holds it instead"
            )
        if self.finder.has_mark(checked.text):
            return block(
                "the arguments hold a mark in place of a secret; name the variable or file that holds the secret instead"
            )
        return None

    def _of_value(self, value: Any) -> GuardrailVerdict | None:
        found: dict[str, None] = {}

        def text_of(text: str, key: str) -> str:
            if self._names and key and is_secret_name(key) and is_secret_value(text) and not self.finder.has_mark(text):
                found[key[:60]] = None
                return self.finder.mark()
            new, names = self.finder.redacted(text)
            found.update(dict.fromkeys(names))
            return new

        new = rewritten(value, text_of)
        return rewrite_value(new, _told(found)) if found else None


def _told(found: Iterable[str]) -> str:
    return "secrets: " + ", ".join(found)
