"""A service that makes pictures, by the images endpoint that OpenAI and many others speak.

Owns: the request and the answer. Must not know: where a picture is saved.
Source: OpenAI API reference, "Images: create" (POST /images/generations), November 2026. GPT image models answer with bytes in
base64; others answer with an address, from which the picture is got here.
Read next: `generate_image.py`.
"""

from __future__ import annotations

import base64
import binascii
import os
from collections.abc import Mapping
from typing import Any, Final, NamedTuple
from urllib.parse import urlsplit

import httpx2

from ..core.pictures import PictureFacts, picture_facts
from ..model.errors import ConfigError
from ..model.web_errors import WebServiceError
from .web_access import Elsewhere, WebAccess, WebReach, body_of
from .web_services import JsonCall, WebService, list_in, object_in, text_in

OPENAI_URL: Final = "https://api.openai.com/v1"
MAX_MADE_BYTES: Final = 30_000_000


class MadePicture(NamedTuple):
    """What came of a request."""

    data: bytes
    facts: PictureFacts
    usage: dict[str, Any]
    """Tokens as the service counted them; empty when it does not."""
    revised_prompt: str
    """What the service made of the prompt; "" when it does not say."""


class ImageEndpoint:
    """One model behind one address.

    Concurrency: any number of calls, from any event loop.
    """

    def __init__(
        self,
        model: str = "gpt-image-1",
        *,
        base_url: str | None = None,
        api_key: str | None = None,
        extra: Mapping[str, Any] | None = None,
        timeout_s: float = 180.0,
        env: Mapping[str, str] | None = None,
    ) -> None:
        """`base_url`: None is OPENAI_BASE_URL, else OpenAI's own. `api_key`: None is OPENAI_API_KEY, which is sent only to the
        address that the environment or OpenAI names; with a `base_url` of your own, give its key (or "" for none).

        `env`: None is this process's own. `extra` is sent along: `{"quality": "low"}`, `{"response_format": "b64_json"}` for models that would answer with an address.
        Raises: `ConfigError` without a key, or when `base_url` is no http address.
        """
        known = os.environ if env is None else env
        key = api_key if api_key is not None or base_url is not None else known.get("OPENAI_API_KEY", "")
        if base_url is None and not key:
            raise ConfigError("generate_image needs a key: pass ImageEndpoint(api_key=...) or set OPENAI_API_KEY")
        address = base_url or known.get("OPENAI_BASE_URL") or OPENAI_URL
        self.model = model
        self.timeout_s = timeout_s
        self._key = (key or "").strip()
        self._extra = dict(extra or {})
        # Base64 is a third longer than what it holds.
        self._service = WebService("images", address, self._key, timeout_s=timeout_s, max_bytes=2 * MAX_MADE_BYTES)
        self._host = urlsplit(self._service.base_url).netloc

    async def make(self, prompt: str, size: str | None = None) -> MadePicture:
        """One picture. Raises: `WebServiceError`; the service may have counted it in any case."""
        body = {"model": self.model, "prompt": prompt, "n": 1, **({"size": size} if size else {}), **self._extra}
        headers = {"authorization": f"Bearer {self._key}"} if self._key else {}
        answer = await self._service.ask(
            JsonCall("POST", f"{self._service.base_url}/images/generations", headers, body=body)
        )
        found = list_in(answer.get("data"))
        first = object_in(found[0]) if found else None
        if first is None:
            raise self._service.failed("its answer holds no picture")
        data = await self._data(first)
        try:
            facts = picture_facts(data)
        except ValueError as error:
            raise self._service.failed(f"what it sent is of no use: {error}") from error
        return MadePicture(data, facts, object_in(answer.get("usage")) or {}, text_in(first.get("revised_prompt")))

    async def _data(self, first: dict[str, Any]) -> bytes:
        encoded, url = text_in(first.get("b64_json")), text_in(first.get("url"))
        if encoded:
            try:
                return base64.b64decode(encoded, validate=True)
            except (binascii.Error, ValueError) as error:
                raise self._service.failed("its picture is not base64") from error
        if not url:
            raise self._service.failed("its answer holds neither a picture nor an address of one")
        if urlsplit(url).netloc == self._host:
            return await self._own(url)
        # An address that the host did not name is a stranger's, whoever sent it.
        got = await WebReach(WebAccess(follow="any", max_bytes=MAX_MADE_BYTES)).get(url)
        if isinstance(got, Elsewhere) or got.cut or got.encoding:
            raise self._service.failed(f"its picture is larger than {MAX_MADE_BYTES} bytes or cannot be read")
        return got.body

    async def _own(self, url: str) -> bytes:
        try:
            async with httpx2.AsyncClient(timeout=self.timeout_s) as client:
                request = client.build_request("GET", url, headers={"accept-encoding": "identity"})
                response = await client.send(request, stream=True)
                try:
                    data, cut = await body_of(response, MAX_MADE_BYTES)
                finally:
                    await response.aclose()
        except (httpx2.HTTPError, httpx2.InvalidURL) as error:
            raise WebServiceError("images", f"its picture did not come: {type(error).__name__}") from error
        if cut or response.status_code != 200:
            raise self._service.failed(f"its picture did not come whole (status {response.status_code})")
        return data
