"""What of the web may be reached, and one page got from there.

Owns: the settings, the check of an address before anything is sent, redirects, limits of size and time. Must not know: what a
page says (`page_text.py`), tools.

A name is resolved once, every address that it has is checked, and the connection goes to a checked address and not to the
name: between a check and a second look at the name its owner could change what it stands for. The name goes into the Host
line and into the certificate's check. No cookies, credentials, proxies of the environment: each page is got as by a stranger.
Read next: `../core/addresses.py`, `web_fetch.py`.
"""

from __future__ import annotations

import asyncio
import ipaddress
import re
import socket
import ssl
from collections.abc import Awaitable, Callable, Sequence
from email.utils import parsedate_to_datetime
from http import HTTPStatus
from typing import Literal, NamedTuple, TypeAlias

import httpx2
from msgspec import Struct

from ..core.addresses import address_problem, host_matches, host_problem, plain_host, same_site
from ..model.errors import ConfigError
from ..model.visible import visible
from ..model.web_errors import WebFailedError, WebRefusedError

MAX_URL = 4_000
"""Characters of an address that is fetched."""
MAX_HOPS = 5
_CONNECT_S = 10.0
_ADDRESSES_TRIED = 3
_ACCEPT = "text/html,application/xhtml+xml,text/*;q=0.9,application/pdf;q=0.8,image/*;q=0.7,*/*;q=0.5"
_REDIRECTS = frozenset((301, 302, 303, 307, 308))

Resolve: TypeAlias = Callable[[str, int], Awaitable[Sequence[str]]]
"""The addresses of a host, in the order in which they are tried; raises `OSError` when it has none."""


class WebAccess(Struct, frozen=True, kw_only=True):
    """What may be reached, and how much of it; the same for every call of a tool."""

    allow_hosts: tuple[str, ...] = ("*",)
    """`example.org` is that host, `*.example.org` all below it, `*` every host."""
    deny_hosts: tuple[str, ...] = ()
    """Taken from those that are allowed."""
    ports: tuple[int, ...] = (80, 443)
    networks: tuple[str, ...] = ()
    """Networks that may be reached although they are not public, such as `10.1.0.0/16` for an intranet."""
    follow: Literal["same_site", "any"] = "same_site"
    """Redirects to another host are told to the model, who may fetch them in a call of its own (`same_site`: rules about
    hosts then see each host), or followed. Every hop is checked in any case."""
    max_bytes: int = 10_000_000
    """Of one page, packed and unpacked. Text over it is cut, anything else is refused."""
    timeout_s: float = 30.0
    """For all hops together."""
    proxy: str | None = None
    """Its address. Names are then resolved by the proxy, and what they stand for is for it to check."""
    user_agent: str = "loopwright"
    resolve: Resolve | None = None
    """None: as this machine resolves names."""
    tls: ssl.SSLContext | None = None
    """None: the certificates that this machine trusts."""


class Fetched(NamedTuple):
    """A page as it came."""

    url: str
    """The address that answered, after redirects."""
    media_type: str
    """In lower case; "" when the server named none."""
    charset: str
    """As the server named it, or ""."""
    encoding: str
    """How `body` is packed; "" when it is not."""
    body: bytes
    cut: bool
    """There was more than `max_bytes`."""


class Elsewhere(NamedTuple):
    """A redirect that was not followed."""

    url: str
    """The address that was asked last."""
    target: str
    """Where it leads; not checked yet."""


class WebPlace(NamedTuple):
    """An address on the web, read and fit to be asked as far as its text tells."""

    url: httpx2.URL
    host: str
    """ASCII, lower case."""
    port: int

    @property
    def shown(self) -> str:
        """For messages."""
        return visible(str(self.url))


class WebReach:
    """Gets pages as `access` allows. Concurrency: any number of calls, from any event loop."""

    def __init__(self, access: WebAccess) -> None:
        """Raises: `ConfigError` when a setting cannot be used."""
        problems = _setting_problems(access)
        if problems:
            raise ConfigError(problems)
        self._access = access
        self._networks = tuple(ipaddress.ip_network(text) for text in access.networks)
        self._tls = access.tls

    async def get(self, url: str) -> Fetched | Elsewhere:
        """The page at `url`.

        Raises: `WebRefusedError` when it may not be reached, `WebFailedError` when it did not come in time, with a status
        other than 2xx, or at all. Cancel: the connection is closed.
        """
        target = self.checked(url)
        try:
            async with asyncio.timeout(self._access.timeout_s):
                for _ in range(MAX_HOPS + 1):
                    found = await self._hop(target)
                    if isinstance(found, Fetched):
                        return found
                    if self._access.follow != "any" and not _same_place(target, found):
                        return Elsewhere(target.shown, visible(str(found)))
                    target = self.checked(str(found))
        except TimeoutError as error:
            raise WebFailedError(target.shown, f"it did not come within {self._access.timeout_s:g} s") from error
        raise WebFailedError(visible(url), f"it leads on over {MAX_HOPS} times")

    def checked(self, url: str) -> WebPlace:
        """The address, if its text allows it to be asked. Raises: `WebRefusedError`."""
        if len(url) > MAX_URL:
            raise WebRefusedError(visible(url[:100]) + "…", f"it has {len(url)} characters, over {MAX_URL}")
        shown = visible(url)
        try:
            parsed = httpx2.URL(url.strip())
        except (httpx2.InvalidURL, ValueError) as error:
            raise WebRefusedError(shown, f"it is not an address ({visible(str(error))[:200]})") from error
        if parsed.scheme not in ("http", "https"):
            raise WebRefusedError(shown, "only http:// and https:// are fetched")
        if parsed.userinfo:
            raise WebRefusedError(shown, "it holds a name or password; leave that out")
        host = plain_host(parsed.raw_host.decode("ascii", "replace"))
        problem = "it names no host" if not host else host_problem(host)
        if problem is not None:
            raise WebRefusedError(shown, problem)
        port = _port(parsed)
        if port not in self._access.ports:
            raise WebRefusedError(shown, f"port {port} is not one of {', '.join(map(str, self._access.ports))}")
        if host_matches(host, self._access.deny_hosts) or not host_matches(host, self._access.allow_hosts):
            raise WebRefusedError(shown, f"the host {host} is not allowed here")
        return WebPlace(parsed.copy_with(fragment=None), host, port)

    async def _hop(self, target: WebPlace) -> Fetched | httpx2.URL:
        addresses = await self._addresses(target)
        if self._tls is None:
            # Reading the machine's certificates takes tens of milliseconds.
            self._tls = await asyncio.to_thread(httpx2.create_ssl_context)
        limits = httpx2.Limits(max_keepalive_connections=0)
        async with httpx2.AsyncHTTPTransport(verify=self._tls, limits=limits, proxy=self._access.proxy) as transport:
            response = await self._asked(transport, target, addresses)
            try:
                return await self._answer(target, response)
            except httpx2.HTTPError as error:
                raise _network(target, error) from error
            finally:
                await response.aclose()

    async def _addresses(self, target: WebPlace) -> Sequence[str]:
        """Where to connect to, every one of them checked; with a proxy the host as it is named."""
        resolve = _literal(target.host) or self._access.resolve or _resolved
        if self._access.proxy is not None and _literal(target.host) is None:
            return [target.host]
        try:
            found = list(dict.fromkeys(await resolve(target.host, target.port)))
        except (OSError, UnicodeError) as error:
            raise WebFailedError(target.shown, f"the name {target.host} has no address") from error
        if not found:
            raise WebFailedError(target.shown, f"the name {target.host} has no address")
        for address in found:
            problem = address_problem(address, self._networks)
            if problem is not None:
                # Not which address: names of an intranet are nobody's business outside.
                raise WebRefusedError(target.shown, f"{target.host} is not on the public network ({problem})")
        return found

    async def _asked(
        self, transport: httpx2.AsyncHTTPTransport, target: WebPlace, addresses: Sequence[str]
    ) -> httpx2.Response:
        headers = {
            "host": target.url.netloc.decode("ascii"),
            "user-agent": self._access.user_agent,
            "accept": _ACCEPT,
            "accept-encoding": "gzip, deflate",
        }
        limit = self._access.timeout_s
        timeout = {"connect": min(_CONNECT_S, limit), "read": limit, "write": limit, "pool": limit}
        last: httpx2.HTTPError | None = None
        for address in addresses[:_ADDRESSES_TRIED]:
            request = httpx2.Request(
                "GET",
                target.url.copy_with(host=address),
                headers=headers,
                extensions={"timeout": timeout, "sni_hostname": target.host},
            )
            try:
                return await transport.handle_async_request(request)
            except (httpx2.ConnectError, httpx2.ConnectTimeout) as error:
                last = error
            except httpx2.HTTPError as error:
                raise _network(target, error) from error
        raise _network(target, last)

    async def _answer(self, target: WebPlace, response: httpx2.Response) -> Fetched | httpx2.URL:
        status = response.status_code
        location = response.headers.get("location")
        if status in _REDIRECTS and location:
            try:
                return target.url.join(location).copy_with(fragment=None)
            except (httpx2.InvalidURL, ValueError) as error:
                raise WebFailedError(target.shown, "it redirects to what is no address", status=status) from error
        if not 200 <= status < 300:
            raise WebFailedError(
                target.shown,
                f"the server answered {status} {_phrase(status)}".rstrip(),
                status=status,
                retry_after_s=retry_after_s(response),
            )
        body, cut = await body_of(response, self._access.max_bytes)
        media_type, _, rest = response.headers.get("content-type", "").partition(";")
        charset = re.search(r"charset\s*=\s*[\"']?([\w.:-]+)", rest, re.IGNORECASE)
        return Fetched(
            url=target.shown,
            media_type=media_type.strip().lower(),
            charset=charset[1] if charset else "",
            encoding=response.headers.get("content-encoding", "").strip().lower().removeprefix("identity"),
            body=body,
            cut=cut,
        )


async def body_of(response: httpx2.Response, limit: int) -> tuple[bytes, bool]:
    """At most `limit` bytes of an answer as it is packed, and whether there was more; more is never read."""
    pieces: list[bytes] = []
    left = limit
    async for piece in response.aiter_raw():
        pieces.append(piece[:left])
        left -= len(pieces[-1])
        if len(pieces[-1]) < len(piece):
            return b"".join(pieces), True
    return b"".join(pieces), False


def retry_after_s(response: httpx2.Response) -> float | None:
    """Seconds after which the server wants to be asked again; a date counts from the server's own clock."""
    value = response.headers.get("retry-after", "").strip()
    if re.fullmatch(r"\d{1,7}", value):
        return float(value)
    try:
        wait_s = (parsedate_to_datetime(value) - parsedate_to_datetime(response.headers["date"])).total_seconds()
    except (KeyError, ValueError, TypeError, OverflowError):
        return None
    return max(wait_s, 0.0)


def _phrase(status: int) -> str:
    """Our own word for a status: what the server calls it may be anything."""
    try:
        return HTTPStatus(status).phrase
    except ValueError:
        return ""


def _same_place(asked: WebPlace, found: httpx2.URL) -> bool:
    """True when whoever allowed to ask the one has allowed to ask the other."""
    host = found.raw_host.decode("ascii", "replace")
    same = (asked.url.scheme, asked.port) == (found.scheme, _port(found))
    return same_site(asked.host, host) and (same or (asked.port, found.scheme, _port(found)) == (80, "https", 443))


def _port(url: httpx2.URL) -> int:
    return url.port if url.port is not None else 443 if url.scheme == "https" else 80


def _network(target: WebPlace, error: httpx2.HTTPError | None) -> WebFailedError:
    kind = type(error).__name__ if error is not None else "no connection"
    detail = visible(str(error or ""))[:200]
    return WebFailedError(target.shown, f"network fault: {kind} {detail}".rstrip())


def _literal(host: str) -> Resolve | None:
    """For a host that is an address already: that one. None for a name."""
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return None
    return _itself


async def _itself(host: str, port: int) -> Sequence[str]:
    return [host]


async def _resolved(host: str, port: int) -> Sequence[str]:
    found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return [str(address[4][0]) for address in found]


def _setting_problems(access: WebAccess) -> list[str]:
    problems: list[str] = []
    for text in access.networks:
        try:
            ipaddress.ip_network(text)
        except ValueError as error:
            problems.append(f"networks: {error}")
    for name in ("allow_hosts", "deny_hosts"):
        value: object = getattr(access, name)
        if isinstance(value, str):
            problems.append(f"{name} must be a tuple of hosts, not the text {value!r}")
    if access.max_bytes < 1:
        problems.append(f"max_bytes must be at least 1, not {access.max_bytes!r}")
    if not access.timeout_s > 0:
        problems.append(f"timeout_s must be over 0, not {access.timeout_s!r}")
    if access.follow not in ("same_site", "any"):
        problems.append(f'follow must be "same_site" or "any", not {access.follow!r}')
    return problems
