"""The tool that reads a page of the web.

Owns: `web_fetch`: what of a page a model sees, and in which frame. Must not know: how a page is got (`web_access.py`), how
markup becomes text (`document_text.py`).
Everything on a page was written by a stranger, so all of it, its title too, stands in the frame `untrusted` that names the
address; what the tool says itself stands outside of it.
Read next: `web_access.py`, `../core/fencing.py`.
"""

from __future__ import annotations

import asyncio
from importlib.util import find_spec
from typing import Annotated, NamedTuple, cast

from msgspec import Meta

from ..core.fencing import from_outside
from ..core.page_bytes import kind_of, text_of_page, unpacked
from ..core.pictures import picture_facts
from ..model.call_errors import ToolFailure
from ..model.errors import ConfigError
from ..model.messages import ImagePart, TextPart
from ..model.visible import visible
from ..model.web_errors import DocumentUnreadableError, WebFailedError
from ..ports.cancellation import CancellationToken
from ..ports.tool import ToolContext, ToolDefinition, ToolHandlerResult
from .decorator import tool
from .descriptions import description_of
from .document_text import MAX_PDF_PAGES, WALL_S, page_text, pdf_pages
from .view_image import MAX_PICTURE_BYTES, MAX_PIXELS
from .web_access import Elsewhere, Fetched, WebAccess, WebReach

PAGE_CHARS = 20_000
"""Characters of a page that are shown at once when the model names no number."""
MAX_SHOWN = 50_000
MAX_AT_ONCE = 4
"""Calls of one loop; each may have a process that reads its page."""
KEPT_PAGES = 4
"""Pages that a session keeps as text, so that reading on needs no second fetch."""

_SCRATCH_KEY = "loopwright.web_pages"


class _Page(NamedTuple):
    url: str
    kind: str
    """What it was, in words."""
    text: str
    cut: bool


def web_fetch_tool(access: WebAccess | None = None) -> ToolDefinition:
    """`web_fetch`: a page as text, a picture as a picture. Effect pure: it only ever asks with GET.

    `access`: what may be reached; None: the public web, with the limits that `WebAccess` has by itself.
    Raises: `ConfigError` for a setting that cannot be used, and when the extra `web` is not installed.
    """
    if find_spec("markdownify") is None:
        raise ConfigError(
            "web_fetch needs markdownify; pip install 'loopwright[web]' (from a clone: pip install '.[web]')"
        )
    settings = access or WebAccess()
    reach = WebReach(settings)

    @tool(
        description=description_of("web_fetch"),
        effect="pure",
        timeout_s=settings.timeout_s + WALL_S + 5,
        output_limit=MAX_SHOWN + 5_000,
        subjects={"url": "url"},
        source="the web",
        max_parallel=MAX_AT_ONCE,
    )
    async def web_fetch(
        url: Annotated[str, Meta(min_length=1, max_length=4_000)],
        ctx: ToolContext,
        offset: Annotated[int, Meta(ge=0)] = 0,
        limit: Annotated[int, Meta(ge=1, le=MAX_SHOWN)] = PAGE_CHARS,
    ) -> ToolHandlerResult:
        """Read a page.

        Args:
            url: Its address, with http:// or https://.
            offset: First character to show, from 0, to read on in a long page.
            limit: Characters to show.
        """
        kept = cast("dict[str, _Page]", ctx.scratch.setdefault(_SCRATCH_KEY, {}))
        page = kept.get(url) if offset else None
        if page is None:
            got = await reach.get(url)
            if isinstance(got, Elsewhere):
                return _elsewhere(got)
            found = await asyncio.to_thread(_read, got, settings.max_bytes, ctx.cancellation)
            if isinstance(found, ToolHandlerResult):
                return found
            page = found
            kept.pop(url, None)
            kept[url] = page
            while len(kept) > KEPT_PAGES:
                kept.pop(next(iter(kept)), None)
        return _shown(page, offset, limit)

    return web_fetch


def _elsewhere(found: Elsewhere) -> ToolHandlerResult:
    return ToolHandlerResult(
        f"{found.url} redirects to another place, which was not fetched; call web_fetch with its address if it is wanted:\n"
        + from_outside(found.url, found.target),
        data={"url": found.url, "redirect": found.target},
    )


def _read(got: Fetched, max_bytes: int, cancellation: CancellationToken) -> _Page | ToolHandlerResult:
    """What came as text, or as the result when it is a picture. Blocks."""
    try:
        body, more = unpacked(got.body, got.encoding, max_bytes)
    except ValueError as error:
        raise WebFailedError(got.url, str(error)) from error
    cut = got.cut or more
    kind = kind_of(got.media_type, body)
    if kind in ("pdf", "picture") and cut:
        raise WebFailedError(got.url, f"it is a {kind} of over {max_bytes} bytes")
    match kind:
        case "picture":
            return _picture(got.url, body)
        case "pdf":
            found = pdf_pages(body, got.url, 1, MAX_PDF_PAGES, cancellation)
            more_pages = "" if found.total <= len(found.pages) else f", of which the first {len(found.pages)} were read"
            text = "\n\n".join([f"[page {number}]\n{text}" for number, text in found.pages])
            return _Page(got.url, f"a PDF of {found.total} pages{more_pages}", text, cut=False)
        case "html":
            page = page_text(text_of_page(body, got.charset, markup=True), got.url, cancellation)
            text = f"{page.title}\n\n{page.text}" if page.title else page.text
            return _Page(got.url, "a page of HTML, as Markdown", text, cut)
        case "text":
            markup = got.media_type.endswith(("xml", "html"))
            text = text_of_page(body, got.charset, markup=markup)
            return _Page(got.url, f"text ({visible(got.media_type) or 'of no named type'})", text, cut)
        case _:
            raise WebFailedError(
                got.url,
                f"it is {visible(got.media_type)[:100] or 'of no named type'}, {len(body)} bytes, and nothing that can be shown",
            )


def _picture(url: str, body: bytes) -> ToolHandlerResult:
    try:
        facts = picture_facts(body)
    except ValueError as error:
        raise DocumentUnreadableError(url, str(error)) from error
    if len(body) > MAX_PICTURE_BYTES or facts.width * facts.height > MAX_PIXELS:
        raise DocumentUnreadableError(
            url,
            f"a picture of {facts.width}x{facts.height} pixels and {len(body)} bytes is over the limit of"
            f" {MAX_PIXELS} pixels and {MAX_PICTURE_BYTES} bytes",
        )
    text = from_outside(url, f"a picture, {facts.media_type}, {facts.width}x{facts.height}; it is shown below")
    return ToolHandlerResult(
        (TextPart(text), ImagePart(facts.media_type, body)),
        data={"url": url, "media_type": facts.media_type, "width": facts.width, "height": facts.height},
    )


def _shown(page: _Page, offset: int, limit: int) -> ToolHandlerResult:
    size = len(page.text)
    if offset and offset >= size:
        raise ToolFailure(f"{page.url} has {size} characters of text; offset {offset} is past its end")
    end = min(offset + limit, size)
    notes = [f"{page.url}: {page.kind}, {size} characters"]
    if offset or end < size:
        notes.append(f"shown are {offset} to {end}")
    if end < size:
        notes.append(f"continue with offset={end}")
    if page.cut:
        notes.append("it was too long to be fetched whole, its end is missing")
    shown = page.text[offset:end] or "(no text)"
    data = {"url": page.url, "characters": size, "offset": offset, "end": end}
    return ToolHandlerResult(f"({'; '.join(notes)})\n{from_outside(page.url, shown)}", data=data)
