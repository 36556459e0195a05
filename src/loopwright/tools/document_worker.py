"""Turns one HTML page or PDF into text, as a program of its own.

Owns: what of a document is text. Must not know: the rest of the package; it is run by its path, gets its job as an argument
and the document on standard input, and answers with one JSON object.
A process and not a thread: what strangers wrote can make a parser take all memory or hold the interpreter lock for minutes; a
process has limits and can be killed.
Read next: `document_text.py`.
"""

from __future__ import annotations

import io
import json
import logging
import os
import re
import resource
import signal
import sys
from collections.abc import Generator
from contextlib import contextmanager
from html import unescape
from typing import TYPE_CHECKING, Any
from urllib.parse import urljoin, urlsplit

if TYPE_CHECKING:
    from bs4 import BeautifulSoup

_UNSEEN_TAGS = (
    "script",
    "style",
    "template",
    "noscript",
    "svg",
    "iframe",
    "object",
    "embed",
    "canvas",
    "audio",
    "video",
)
_HIDDEN = re.compile(
    r"(?:display\s*:\s*none|visibility\s*:\s*hidden|font-size\s*:\s*0(?![.\d])|opacity\s*:\s*0(?![.\d]))", re.IGNORECASE
)
_MAX_LINK = 1000
_STEP_S = 4.0
_MAX_DEPTH = 100
_MAX_TAGS = 100_000
_MAX_BLANKS = 100
_MAX_IMPLIED = 8
_BLANKS = re.compile(rf"\s{{{_MAX_BLANKS},}}")
_ENDED_BY = {
    "li": ("li",),
    "p": ("p",),
    **dict.fromkeys(("div", "ul", "ol", "table", "h1", "h2", "h3", "h4", "h5", "h6", "pre", "blockquote"), ("p",)),
    "dt": ("dt", "dd"),
    "dd": ("dt", "dd"),
    "tr": ("tr",),
    "td": ("td", "th"),
    "th": ("td", "th"),
    "option": ("option",),
    "a": ("a",),
}
_ENDS_STOP_AT = ("ul", "ol", "dl", "table", "div", "section", "article", "blockquote", "body")
_NO_TEXT = "(no text on this page; it may be a picture)"


def main(job: dict[str, Any]) -> None:
    """Does the job and writes the answer to standard output."""
    _limit(job["memory_bytes"], job["cpu_s"])
    data = sys.stdin.buffer.read()
    # Libraries warn about documents on standard error and through logging; nobody reads that.
    sys.stderr = open(os.devnull, "w")  # noqa: SIM115 - as long as the process
    logging.disable(logging.CRITICAL)
    sys.path[:] = job["path"]
    answer: dict[str, Any]
    try:
        if job["kind"] == "pdf":
            answer = pdf_text(data, job["first"], job["count"], job["max_chars"])
        else:
            answer = html_text(data.decode("utf-8", "replace"), job["url"], job["max_chars"])
    except ImportError as error:
        answer = {"missing": error.name or str(error)}
    except MemoryError:
        answer = {"problem": "it needs more memory than a document may"}
    except Exception as error:  # noqa: BLE001 - whatever a parser raises about what a stranger wrote
        answer = {"problem": f"{type(error).__name__}: {error}"[:300]}
    sys.stdout.write(json.dumps(answer))


def html_text(html: str, url: str, max_chars: int) -> dict[str, Any]:
    """The title and the visible text of a page as Markdown, its links absolute.

    A page that is too deep, too wide or too odd for that gives its plain text.
    """
    from markdownify import MarkdownConverter  # noqa: PLC0415 - one of the two libraries is needed, and each takes long to load

    sys.setrecursionlimit(max(sys.getrecursionlimit(), 20 * _MAX_DEPTH))
    try:
        with _within(_STEP_S):
            soup = _soup(html)
            base = soup.find("base", href=True)
            title = " ".join(soup.title.get_text().split())[:300] if soup.title else ""
            _clean(soup, _joined(url, str(base["href"])) or url if base else url)
    except (_TooSlowError, ValueError, RecursionError, AssertionError):
        return {"title": "", "text": _tidy(_plain(html), max_chars)}
    try:
        with _within(_STEP_S):
            text = MarkdownConverter(
                heading_style="atx", bullets="-", escape_asterisks=False, escape_underscores=False
            ).convert_soup(soup)
    except MemoryError:
        raise
    except Exception:  # noqa: BLE001 - a shape that it does not know, or one on which it takes for ever
        text = soup.get_text("\n")
    return {"title": title, "text": _tidy(text, max_chars)}


def _soup(html: str) -> BeautifulSoup:
    from bs4 import BeautifulSoup  # noqa: PLC0415 - one of the two libraries is needed, and each takes long to load

    class Soup(BeautifulSoup):
        """A tree with bounds, in which a new item ends the one before it as in a browser; this parser would nest them."""

        tags = 0

        def handle_starttag(self, name: str, *args: Any, **kwargs: Any) -> Any:
            self.tags += 1
            if self.tags > _MAX_TAGS:
                return None  # what stands in it becomes text of its parent
            if len(self.tagStack) > _MAX_DEPTH:
                self.popTag()
            ended = _ENDED_BY.get(name, ())
            for tag in self.tagStack[: -1 - _MAX_IMPLIED : -1] if ended else ():
                if tag.name in ended:
                    self.handle_endtag(tag.name)
                    break
                if tag.name in _ENDS_STOP_AT:
                    break
            return super().handle_starttag(name, *args, **kwargs)

    return Soup(_BLANKS.sub(lambda found: found[0][:_MAX_BLANKS], html), "html.parser")


def _plain(html: str) -> str:
    """What stands outside of tags, in time that grows with the length alone."""
    out: list[str] = []
    skipped = ""
    for piece in html.split("<"):
        name = piece[:10].lower()
        if skipped:
            skipped = "" if name.startswith(skipped) else skipped
        elif name.startswith(("script", "style")):
            skipped = f"/{name[:5]}"
        if not skipped:
            out.append(piece.partition(">")[2].strip())
    return unescape("\n".join(filter(None, out)))


class _TooSlowError(Exception):
    """A step took more of the processor than it may."""


@contextmanager
def _within(cpu_s: float) -> Generator[None, None, None]:
    """Ends what is done inside after so much time of the processor, as soon as the interpreter comes to it."""

    def over(number: int, frame: object) -> None:
        raise _TooSlowError

    signal.signal(signal.SIGPROF, over)
    signal.setitimer(signal.ITIMER_PROF, cpu_s)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)


def _clean(soup: BeautifulSoup, url: str) -> None:
    """Takes out what a reader does not see, and makes links absolute."""
    for tag in soup(_UNSEEN_TAGS):
        tag.extract()
    for tag in soup(("head", "title")):
        tag.extract()
    for tag in soup(True):
        hidden = tag.has_attr("hidden") or tag.get("aria-hidden") == "true"
        if hidden or _HIDDEN.search(str(tag.get("style", ""))[:2000]):
            tag.extract()
        elif tag.name == "a" and tag.has_attr("href"):
            link = _joined(url, str(tag["href"]))
            if link is None:
                del tag["href"]
            else:
                tag["href"] = link
            del tag["title"]
        elif tag.name == "img":
            source = _joined(url, str(tag.get("src", "")))
            if source is None or not str(tag.get("alt", "")).strip():
                tag.extract()
            else:
                tag["src"] = source
                del tag["title"]


def _joined(base: str, link: str) -> str | None:
    """An absolute address for a link; None for what leads nowhere that can be fetched."""
    link = link.strip()
    if not link or link.startswith("#") or len(link) > _MAX_LINK:
        return None
    try:
        full = urljoin(base, link)
        scheme = urlsplit(full).scheme
    except ValueError:
        return None
    return full if scheme in ("http", "https", "mailto") and len(full) <= 2 * _MAX_LINK else None


def pdf_text(data: bytes, first: int, count: int, max_chars: int) -> dict[str, Any]:
    """The text of `count` pages from page `first`, counted from 1, and how many there are."""
    from pypdf import PdfReader  # noqa: PLC0415 - one of the two libraries is needed, and each takes long to load

    reader = PdfReader(io.BytesIO(data))
    if reader.is_encrypted and not reader.decrypt(""):
        return {"problem": "it is encrypted and needs a password"}
    total = len(reader.pages)
    pages: list[tuple[int, str]] = []
    left = max_chars
    for number in range(first, min(first + count, total + 1)):
        try:
            text = _tidy(reader.pages[number - 1].extract_text(), left) or _NO_TEXT
        except MemoryError:
            raise
        except Exception as error:  # noqa: BLE001 - one damaged page does not hide the others
            text = f"(this page cannot be read: {type(error).__name__}: {str(error)[:200]})"
        pages.append((number, text))
        left -= len(text)
        if left <= 0:
            break
    return {"pages": pages, "total": total}


def _tidy(text: str, max_chars: int) -> str:
    """At most so many characters, without control characters, trailing blanks and runs of empty lines."""
    text = text[: 2 * max_chars].replace("\r\n", "\n").replace("\r", "\n")
    lines: list[str] = []
    for line in text.split("\n"):
        kept = (
            line.rstrip() if line.isprintable() else "".join(c for c in line if c.isprintable() or c == "\t").rstrip()
        )
        if kept or (lines and lines[-1]):
            lines.append(kept)
    return "\n".join(lines).strip("\n")[:max_chars].encode("utf-8", "replace").decode()


def _limit(memory_bytes: int, cpu_s: int) -> None:
    for what, value in ((resource.RLIMIT_AS, memory_bytes), (resource.RLIMIT_CPU, cpu_s), (resource.RLIMIT_FSIZE, 0)):
        try:
            resource.setrlimit(what, (value, value))
        except (ValueError, OSError):
            pass  # not every system has every limit; the time limit of the parent holds in any case


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
