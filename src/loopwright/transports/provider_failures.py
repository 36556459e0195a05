"""From what a provider says went wrong to one of our typed errors.

Owns: which failures pass, which are final, which are a too long request; waiting times; keeping secrets out of texts.
Must not know: an HTTP library, the shape of a good reply.
Read next: `http_service.py`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from email.utils import parsedate_to_datetime
from typing import Any, Final

from ..model.errors import LLMContextOverflowError, LLMError, LLMRequestError, LLMTransientError
from .json_values import as_list, as_object, as_text, is_too_deep, section

_MAX_TEXT = 600
_TRANSIENT_STATUS: Final = frozenset((408, 409, 425, 429))

_OVERFLOW_CODES: Final = frozenset(
    ("context_length_exceeded", "string_above_max_length", "request_too_large", "context_window_exceeded")
)
_OVERFLOW_TEXT: Final = re.compile(
    r"context[ _-]?(length|window|size|limit)|maximum context|prompt is too long|input (length|is too long|token count)"
    r"|too many (input |prompt )?tokens|exceeds? the (maximum|max) (number of |allowed )?(input )?tokens|reduce the length"
    r"|request too large",
    re.IGNORECASE,
)
_QUOTA_CODES: Final = frozenset(("insufficient_quota", "billing_hard_limit_reached", "billing_not_active"))

# Anthropic, "Errors"; OpenAI, "Error codes" and the Responses error object (November 2026).
_STATUS_OF_WORD: Final[dict[str, int]] = {
    "invalid_request_error": 400,
    "invalid_prompt": 400,
    "invalid_image": 400,
    "invalid_base64_image": 400,
    "image_content_policy_violation": 400,
    "bad_request": 400,
    "authentication_error": 401,
    "invalid_api_key": 401,
    "billing_error": 402,
    "insufficient_quota": 402,
    "permission_error": 403,
    "not_found_error": 404,
    "model_not_found": 404,
    "request_too_large": 413,
    "rate_limit_error": 429,
    "rate_limit_exceeded": 429,
    "api_error": 500,
    "server_error": 500,
    "internal_error": 500,
    "timeout_error": 504,
    "overloaded_error": 529,
}


class FailureReader:
    """Makes typed errors for one provider, with its secrets taken out of every text."""

    def __init__(self, provider: str, key_hint: str, secrets: Iterable[str]) -> None:
        self._provider = provider
        self._key_hint = key_hint
        known = {s for s in secrets if len(s) >= 4}
        # Some providers show a key without its prefix.
        known |= {rest for s in known if len(rest := s.partition("-")[2]) >= 12}
        self._secrets = sorted(known, key=len, reverse=True)

    def of_status(self, status: int, headers: Mapping[str, str], body: bytes, now: float) -> LLMError:
        """The error for a reply with a status other than 2xx; `now` is for a Retry-After that names a date."""
        document = _document(body)
        error = error_object(document)
        message, code = _message_and_code(error, document)
        if not message:
            message = _plain_text(body) or "no message"
        return self._build(status, message, code, retry_after_s(headers, now), document)

    def of_stream(self, error: Any) -> LLMError:
        """The error for an error object inside of a reply whose HTTP status was fine."""
        message, code = _message_and_code(error, error)
        status = _status_of(error, code)
        return self._build(status, message or "the provider reported an error without a message", code, None, error)

    def transient(self, what: str, *, status: int | None = None) -> LLMTransientError:
        """A passing fault of the network or of the reply's form."""
        return LLMTransientError(f"{self._provider}: {self.clean(what)}", provider=self._provider, status=status)

    def clean(self, text: str) -> str:
        """`text` without keys and passwords, at most 600 characters."""
        for secret in self._secrets:
            text = text.replace(secret, "***")
        text = re.sub(r"\b(sk|pk|rk|gsk|xai|key)-[A-Za-z0-9_*-]{6,}", r"\1-***", text)
        text = re.sub(r"(?i)\bbearer [^\s\"']+", "Bearer ***", text)
        text = re.sub(r"://[^/\s@]+@", "://***@", text)
        return text if len(text) <= _MAX_TEXT else text[: _MAX_TEXT - 1] + "…"

    def _build(self, status: int | None, message: str, code: str, wait_s: float | None, details: Any) -> LLMError:
        text = self.clean(message)
        where = f"{self._provider} {status}" if status is not None else self._provider
        facts: dict[str, Any] = {"provider": self._provider, "status": status, "retry_after_s": wait_s}
        facts["details"] = {"code": self.clean(code), "message": text}
        if code in _QUOTA_CODES:
            return LLMRequestError(f"{where}: {text}; the account has no credit left, retrying cannot help", **facts)
        passing = status is None or status in _TRANSIENT_STATUS or status >= 500
        if (
            code in _OVERFLOW_CODES
            or status == 413
            or (_OVERFLOW_TEXT.search(text) and (not passing or status is None))
        ):
            return LLMContextOverflowError(f"{where}: {text}", **facts)
        if passing:
            return LLMTransientError(f"{where}: {text}", **facts)
        hint = self._hint(status, details)
        return LLMRequestError(f"{where}: {text}" + (f"; {hint}" if hint else ""), **facts)

    def _hint(self, status: int | None, details: Any) -> str:
        if status == 401:
            return f"check the key in {self._key_hint}"
        if status == 402:
            return "check the account's billing"
        if status == 403:
            return f"check what the key in {self._key_hint} may use"
        if status == 404:
            return "check model and base_url"
        if status is not None and 300 <= status < 400:
            return "the server answers with a redirect; check base_url"
        return ""


def error_object(document: Any) -> Any:
    """What stands under `error` (or is one itself), else None."""
    many = as_list(document)
    found = as_object(many[0] if many else document)
    if found is None:
        return None
    if found.get("error"):
        return found["error"]
    detail = found.get("detail")
    if detail:
        return {"message": detail if isinstance(detail, str) else json.dumps(detail)}
    return found if isinstance(found.get("message"), str) else None


def retry_after_s(headers: Mapping[str, str], now: float) -> float | None:
    """Seconds to wait from `retry-after-ms` or `retry-after` (seconds or an HTTP date, RFC 9110 10.2.3); None if not given."""
    millis = _number(headers.get("retry-after-ms"))
    if millis is not None:
        return max(millis / 1000.0, 0.0)
    text = headers.get("retry-after")
    if not text:
        return None
    seconds = _number(text)
    if seconds is not None:
        return max(seconds, 0.0)
    try:
        return max(parsedate_to_datetime(text).timestamp() - now, 0.0)
    except ValueError:
        return None


def _number(text: str | None) -> float | None:
    try:
        value = float(text) if text else None
    except ValueError:
        return None
    return value if value is not None and value < 1e9 else None


def _document(body: bytes) -> Any:
    try:
        return None if is_too_deep(body) else json.loads(body)
    except (ValueError, RecursionError):
        return None


def _plain_text(body: bytes) -> str:
    text = body[:20_000].decode("utf-8", "replace")
    if "<" in text:
        text = re.sub(r"(?is)<(script|style)\b.*?</\1>|<[^>]*>", " ", text)
    return " ".join(text.split())


def _message_and_code(error: Any, document: Any) -> tuple[str, str]:
    if isinstance(error, str):
        return error, ""
    found = as_object(error) or {}
    message = found.get("message")
    text = message if isinstance(message, str) else json.dumps(message) if message else ""
    if raw := as_text(section(found, "metadata").get("raw")):
        # OpenRouter's own message is only "Provider returned error".
        text = f"{text}: {raw}"
    for key in ("code", "type"):
        word = found.get(key)
        if isinstance(word, str) and word and word != "error":
            return text, word
    return text, ""


def _status_of(error: Any, code: str) -> int | None:
    found = as_object(error) or {}
    for key in ("status_code", "status", "code"):
        value = found.get(key)
        if isinstance(value, str) and value.isdigit():
            value = int(value)
        if isinstance(value, int) and 400 <= value < 600:
            return value
    if code in _STATUS_OF_WORD:
        return _STATUS_OF_WORD[code]
    return _STATUS_OF_WORD.get(as_text(found.get("type")))
