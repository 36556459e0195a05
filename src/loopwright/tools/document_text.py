"""Documents as text, made by a process with limits.

Owns: starting `document_worker.py`, its limits, and errors in words. Must not know: where a document is from.
Blocks: to be called in a thread.
Read next: `document_worker.py`.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any, NamedTuple

from ..model.errors import CancellationRequested, ConfigError
from ..model.web_errors import DocumentUnreadableError
from ..ports.cancellation import CancellationToken

MAX_CHARS = 2_000_000
"""Of the text of one document."""
MAX_HTML = 2_000_000
"""Characters of a page that are looked at."""
MAX_PDF_BYTES = 50_000_000
MAX_PDF_PAGES = 100
"""Pages that are read at once."""
CPU_S = 10
"""Of a processor."""
WALL_S = 30.0
MEMORY_BYTES = 1024 * 1024 * 1024
_LOOK_S = 0.1
_WORKER = str(Path(__file__).with_name("document_worker.py"))
_EXTRAS = {"pypdf": ("PDF files", "pdf"), "cryptography": ("encrypted PDF files", "crypto")}


class PageText(NamedTuple):
    """A page of the web as text."""

    title: str
    text: str
    """Markdown."""


class PdfPages(NamedTuple):
    """Some pages of a PDF."""

    pages: tuple[tuple[int, str], ...]
    """Number, from 1, and text."""
    total: int


def page_text(html: str, url: str, cancellation: CancellationToken) -> PageText:
    """A page as Markdown; what a reader does not see is left out, links are absolute.

    Raises: `DocumentUnreadableError`, `ConfigError` without the extra, `CancellationRequested`.
    """
    answer = _answer(url, {"kind": "html", "url": url}, html[:MAX_HTML].encode("utf-8", "replace"), cancellation)
    return PageText(str(answer["title"]), str(answer["text"]))


def pdf_pages(data: bytes, name: str, first: int, count: int, cancellation: CancellationToken) -> PdfPages:
    """At most `MAX_PDF_PAGES` pages of a PDF from page `first` on, as text.

    Raises: `DocumentUnreadableError`, `ConfigError` without the extra, `CancellationRequested`.
    """
    if len(data) > MAX_PDF_BYTES:
        raise DocumentUnreadableError(name, f"it has {len(data)} bytes, over {MAX_PDF_BYTES}")
    answer = _answer(name, {"kind": "pdf", "first": first, "count": min(count, MAX_PDF_PAGES)}, data, cancellation)
    found = PdfPages(tuple((int(number), str(text)) for number, text in answer["pages"]), int(answer["total"]))
    if not found.pages:
        raise DocumentUnreadableError(name, f"it has {found.total} pages; page {first} is past its end")
    return found


def _answer(name: str, job: dict[str, Any], data: bytes, cancellation: CancellationToken) -> dict[str, Any]:
    job |= {"path": sys.path, "max_chars": MAX_CHARS, "memory_bytes": MEMORY_BYTES, "cpu_s": CPU_S}
    with tempfile.TemporaryFile() as document:
        document.write(data)
        document.seek(0)
        # Without site and the script's own folder: modules beside the worker have names of the standard library.
        process = subprocess.Popen(
            [sys.executable, "-I", "-S", _WORKER, json.dumps(job)],
            stdin=document,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env={},
            start_new_session=True,
        )
    try:
        output = _output(process, name, cancellation)
    finally:
        process.kill()
        process.wait()
        if process.stdout is not None:
            process.stdout.close()
    try:
        answer: dict[str, Any] = json.loads(output)
    except ValueError:
        raise DocumentUnreadableError(name, "reading it needs more memory or time than a document may") from None
    if "missing" in answer:
        what, extra = _EXTRAS.get(str(answer["missing"]), ("web pages", "web"))
        raise ConfigError(
            f"reading {what} needs {answer['missing']}; pip install 'loopwright[{extra}]'"
            f" (from a clone: pip install '.[{extra}]')"
        )
    if "problem" in answer:
        raise DocumentUnreadableError(name, str(answer["problem"]))
    return answer


def _output(process: subprocess.Popen[bytes], name: str, cancellation: CancellationToken) -> bytes:
    for _ in range(int(WALL_S / _LOOK_S)):
        try:
            return process.communicate(timeout=_LOOK_S)[0]
        except subprocess.TimeoutExpired:
            if cancellation.cancelled:
                raise CancellationRequested(cancellation.reason) from None
    raise DocumentUnreadableError(name, f"reading it took over {WALL_S:g} s")
