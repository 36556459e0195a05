"""Errors of reaching the web and of reading documents and pictures.

Owns: these branches of the tree in `errors.py`. Must not know: who raises them. Read next: `errors.py`.
"""

from __future__ import annotations

from .errors import RunError, UsageError


class WebRefusedError(UsageError):
    """An address may not be fetched; nothing was sent to it."""

    code = "web.refused"

    def __init__(self, url: str, why: str) -> None:
        self.url = url
        self.why = why
        super().__init__(f"{url} was not fetched: {why}")


class WebFailedError(RunError):
    """A page was asked for and did not come, or is of no use."""

    code = "web.failed"

    def __init__(self, url: str, why: str, *, status: int | None = None, retry_after_s: float | None = None) -> None:
        self.url = url
        self.why = why
        self.status = status
        """Of HTTP; None when there was no answer."""
        self.retry_after_s = retry_after_s
        super().__init__(f"{url}: {why}{_later(retry_after_s)}")


class WebServiceError(RunError):
    """A service that searches or makes pictures refused, failed, or answered what is not of its protocol."""

    code = "web.service"

    def __init__(
        self, service: str, why: str, *, status: int | None = None, retry_after_s: float | None = None
    ) -> None:
        self.service = service
        self.why = why
        self.status = status
        """Of HTTP; None when there was no answer."""
        self.retry_after_s = retry_after_s
        super().__init__(f"{service}: {why}{_later(retry_after_s)}")


class DocumentUnreadableError(RunError):
    """A document or a picture cannot be read: damaged, encrypted, too large, or another kind of file."""

    code = "document.unreadable"

    def __init__(self, name: str, why: str) -> None:
        self.name = name
        self.why = why
        super().__init__(f"{name} cannot be read: {why}")


def _later(retry_after_s: float | None) -> str:
    return "" if retry_after_s is None else f"; try again after {retry_after_s:g} s"
