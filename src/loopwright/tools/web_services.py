"""One JSON request to a service that the host named: with its key, within bounds, errors in words.

Owns: sending, size and time, keeping keys out of messages. Must not know: what a service answers.
Unlike pages (`web_access.py`) these addresses are the host's own, so they may be private, and proxies of the environment hold.
Read next: `search_services.py`, `generate_image.py`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from http import HTTPStatus
from typing import Any, NamedTuple, cast
from urllib.parse import urlsplit

import httpx2
from msgspec import DecodeError, json

from ..model.errors import ConfigError
from ..model.visible import visible
from ..model.web_errors import WebServiceError
from .web_access import body_of, retry_after_s

_MAX_SAID = 300
_HINTS = {401: "check its key", 402: "check its credit", 403: "check its key and what it may do"}


class JsonCall(NamedTuple):
    """What is asked."""

    method: str
    url: str
    headers: Mapping[str, str]
    params: Mapping[str, str] | None = None
    body: Any = None


class WebService:
    """A service by its name and address."""

    def __init__(self, name: str, base_url: str, secret: str = "", *, timeout_s: float, max_bytes: int) -> None:
        """Raises: `ConfigError` when `base_url` is no http address."""
        parts = urlsplit(base_url)
        if parts.scheme not in ("http", "https") or not parts.netloc:
            raise ConfigError(f"{name}: base_url {base_url!r} must begin with http:// or https:// and name a host")
        self.name = name
        self.base_url = base_url.rstrip("/")
        self._secret = secret
        self._timeout_s = timeout_s
        self._max_bytes = max_bytes

    async def ask(self, call: JsonCall) -> dict[str, Any]:
        """The JSON object that the service answers. Raises: `WebServiceError`; nothing is tried again here."""
        try:
            async with asyncio.timeout(self._timeout_s), httpx2.AsyncClient(timeout=self._timeout_s) as client:
                content = None if call.body is None else json.encode(call.body)
                headers = {"accept": "application/json", "accept-encoding": "identity", "user-agent": "loopwright"}
                if content is not None:
                    headers["content-type"] = "application/json"
                request = client.build_request(
                    call.method, call.url, headers={**headers, **call.headers}, params=call.params, content=content
                )
                response = await client.send(request, stream=True, follow_redirects=False)
                try:
                    data, cut = await body_of(response, self._max_bytes)
                finally:
                    await response.aclose()
        except TimeoutError as error:
            raise self._failed(f"no answer within {self._timeout_s:g} s") from error
        except (httpx2.HTTPError, httpx2.InvalidURL) as error:
            raise self._failed(f"network fault: {type(error).__name__} {error}".rstrip()) from error
        return self._answer(response, data, cut)

    def failed(self, why: str) -> WebServiceError:
        """An answer that is of no use; `why` may hold what the service said."""
        return self._failed(why, 200)

    def _answer(self, response: httpx2.Response, data: bytes, cut: bool) -> dict[str, Any]:
        status = response.status_code
        if not 200 <= status < 300:
            words = " ".join([str(status), _phrase(status)]).strip()
            said = _said(data)
            hint = f"; {_HINTS[status]}" if status in _HINTS else ""
            why = f"it answered {words}{f': {said}' if said else ''}{hint}"
            raise self._failed(why, status, retry_after_s(response))
        if cut:
            raise self._failed(f"its answer has over {self._max_bytes} bytes", status)
        try:
            answer = object_in(json.decode(data))
        except (DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise self._failed(f"its answer is not JSON ({error})", status) from error
        if answer is None:
            raise self._failed("its answer is not a JSON object", status)
        return answer

    def _failed(self, why: str, status: int | None = None, wait_s: float | None = None) -> WebServiceError:
        text = why.replace(self._secret, "***") if len(self._secret) >= 4 else why
        shown = visible(text)
        return WebServiceError(
            self.name,
            shown if len(shown) <= 2 * _MAX_SAID else f"{shown[: 2 * _MAX_SAID]}…",
            status=status,
            retry_after_s=wait_s,
        )


def object_in(value: Any) -> dict[str, Any] | None:
    """A field that should be a JSON object; None for anything else."""
    return cast("dict[str, Any]", value) if isinstance(value, dict) else None


def list_in(value: Any) -> list[Any] | None:
    """A field that should be a list; None for anything else."""
    return cast("list[Any]", value) if isinstance(value, list) else None


def text_in(value: Any) -> str:
    """The text of a field that should be one; "" for anything else."""
    return value if isinstance(value, str) else ""


def _said(data: bytes) -> str:
    """What a failed answer says, where it says it in one of the usual places."""
    try:
        answer: Any = json.decode(data)
    except (DecodeError, UnicodeDecodeError, RecursionError):
        return ""
    for _ in range(3):
        inner = object_in(answer)
        if inner is not None:
            answer = next((inner[key] for key in ("error", "detail", "message") if inner.get(key)), "")
    return text_in(answer)[:_MAX_SAID]


def _phrase(status: int) -> str:
    try:
        return HTTPStatus(status).phrase
    except ValueError:
        return ""
