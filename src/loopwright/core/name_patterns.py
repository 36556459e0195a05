"""Patterns of rules: names of tools, words of commands, paths, hosts. All of them cost length times length at most.

Owns: what `*`, `?` and `**` stand for, and how a path or a host is written in one way before it is compared.
Must not know: rules, calls, the disk.
Read next: `permissions.py`.
"""

from __future__ import annotations

import ipaddress
import re
import unicodedata
from collections.abc import Callable, Sequence
from typing import Final
from urllib.parse import urlsplit

from msgspec import Struct

MAX_PATH: Final = 4096
MAX_URL: Final = 8192

_HOST: Final = re.compile(r"[a-z0-9_-]+(?:\.[a-z0-9_-]+)*\Z")
_NUMBERS: Final = re.compile(r"(?:0x[0-9a-f]*|[0-9]+)(?:\.(?:0x[0-9a-f]*|[0-9]+))*\.?\Z")
_PORTS: Final = {"http": 80, "https": 443, "ws": 80, "wss": 443}


def name_fits(pattern: str, name: str) -> bool:
    """`*` stands for any characters, `?` for one, everything else for itself."""
    return _fits(pattern, name, "*", _same_char)


def words_fit(pattern: str, words: Sequence[str]) -> bool:
    """A pattern of command words: a `*` as a word stands for any words, inside of one for any characters of it.

    One that ends with `*` takes any further words, too.
    """
    parts = pattern.split()
    if parts[-1].endswith("*") and parts[-1] != "*":
        parts.append("*")
    return _fits(parts, words, "*", name_fits)


class Places(Struct, frozen=True):
    """Where paths start from."""

    workspace: tuple[str, ...] = ()
    """The folder, by each of its absolute names; () when it is not known."""
    home: str | None = None
    """What `~` stands for."""


def normal_path(text: str, places: Places) -> str | None:
    """The path as rules see it: relative to the workspace, or absolute outside of it; None when it cannot be read.

    `.`, `..`, doubled slashes and the ways to name the workspace are gone. Links are not looked at.
    """
    if not text.strip() or "\x00" in text or len(text) > MAX_PATH:
        return None
    if text == "@workspace" or text.startswith("@workspace/"):
        text = "./" + text[len("@workspace") :].lstrip("/")
    elif text == "@home" or text.startswith("@home/"):
        return "@home/" + "/".join(_joined(text[len("@home/") :].split("/"), rooted=True))
    elif text == "~" or text.startswith("~/"):
        if places.home is None:
            return "~/" + "/".join(_joined(text[2:].split("/"), rooted=True))
        text = places.home + text[1:]
    if text.startswith("/"):
        path = "/" + "/".join(_joined(text.split("/"), rooted=True))
        for root in places.workspace:
            if path == root:
                return "."
            if path.startswith(root.rstrip("/") + "/"):
                return path[len(root.rstrip("/")) + 1 :]
        return path
    parts = _joined(text.split("/"), rooted=False)
    if parts and parts[0] == ".." and places.workspace:
        return normal_path(f"{places.workspace[0]}/{'/'.join(parts)}", places)
    return "/".join(parts) or "."


def _joined(parts: Sequence[str], *, rooted: bool) -> list[str]:
    out: list[str] = []
    for part in parts:
        if part in ("", "."):
            continue
        if part != ".." or (not rooted and (not out or out[-1] == "..")):
            out.append(part)
        elif out:
            out.pop()
    return out


def path_fits(pattern: str, path: str, places: Places, *, widely: bool) -> bool | None:
    """Whether a path as `normal_path` writes it fits; None when that cannot be told.

    A pattern without a slash is a name at any depth; `**` stands for any folders; one that ends with a slash for all that
    is inside. `widely`, for rules that must not be got around: whatever is below a match fits, and letters of either case do.
    """
    wanted = normal_path(pattern, places)
    if wanted is None:
        return False
    parts = _split(wanted)
    if "/" not in pattern.rstrip("/") and pattern.rstrip("/") not in ("", "~", ".", ".."):
        parts = ["**", *parts]
    if pattern.endswith("/") or widely:
        parts.append("**")
    if widely:
        parts, path = [_folded(one) for one in parts], _folded(path)
    if _is_rooted(wanted):
        if _is_rooted(path):
            return _fits(parts, _split(path), "**", _part_fits)
        absolute = [f"{root.rstrip('/')}/{path}" for root in places.workspace]
        if widely:
            absolute = [_folded(one) for one in absolute]
        if not absolute and widely:
            return None
        return any(_fits(parts, _split(one), "**", _part_fits) for one in absolute)
    if not _is_rooted(path) and not path.startswith(".."):
        return _fits(parts, _split(path), "**", _part_fits)
    if not widely:
        return False
    if parts[0] == "**":
        return _fits(parts, [one for one in _split(path) if one != ".."], "**", _part_fits)
    return None if not places.workspace else False


def _is_rooted(path: str) -> bool:
    return path.startswith(("/", "~/", "@home/"))


def _split(path: str) -> list[str]:
    return [] if path in (".", "./") else path.rstrip("/").split("/")


def _part_fits(pattern: str, part: str) -> bool:
    return pattern == part if ".." in (pattern, part) else name_fits(pattern, part)


def _folded(part: str) -> str:
    return unicodedata.normalize("NFC", part).casefold()


class Target(Struct, frozen=True):
    """Where a URL leads."""

    host: str
    """In lower case, as it goes over the wire; an IPv6 address without brackets."""
    port: int
    is_default_port: bool


def target_of(url: str) -> Target | None:
    """Host and port of an http or https URL; None for what two readers could read differently.

    That is: a name and password before the host, backslashes, spaces, percent signs, and addresses in unusual numbers.
    """
    if len(url) > MAX_URL or "\\" in url or any(ord(char) < 33 or ord(char) == 127 for char in url):
        return None
    try:
        read = urlsplit(url)
        port = read.port
    except ValueError:
        return None
    usual = _PORTS.get(read.scheme.lower())
    if usual is None or "@" in read.netloc or not read.hostname:
        return None
    host = normal_host(read.hostname)
    if host is None:
        return None
    return Target(host, usual if port is None else port, port is None or port == usual)


def normal_host(host: str) -> str | None:
    """A host in the one way in which it is compared; None when it is no host, or not written as usual."""
    host = host.strip("[]").lower()
    if ":" in host:
        try:
            address = ipaddress.IPv6Address(host)
        except ValueError:
            return None
        return str(address.ipv4_mapped or address)
    host = host.removesuffix(".")
    if _HOST.match(host) is None:  # other letters go over the wire in a form that not all programs agree on
        return None
    if _NUMBERS.match(host):
        try:
            return str(ipaddress.IPv4Address(host))
        except ValueError:
            return None
    return host


def host_fits(pattern: str, target: Target, *, widely: bool) -> bool:
    """`*.example.com` stands for all hosts below it, not for itself. Without a port: the usual one; `widely`: any."""
    name, port = _parts_of_host(pattern)
    if port is None:
        if not widely and not target.is_default_port:
            return False
    elif port != "*" and int(port) != target.port:
        return False
    if name == "*":
        return True
    if name.startswith("*."):
        below = normal_host(name[2:])
        return below is not None and target.host.endswith("." + below)
    return normal_host(name) == target.host


def _parts_of_host(pattern: str) -> tuple[str, str | None]:
    if pattern.startswith("["):
        name, _, rest = pattern[1:].partition("]")
        return name, rest[1:] or None
    name, _, port = pattern.partition(":")
    return name, port or None


def _same_char(pattern: str, char: str) -> bool:
    return pattern in ("?", char)


def _fits(pattern: Sequence[str], given: Sequence[str], star: str, one_fits: Callable[[str, str], bool]) -> bool:
    """Whether all of `given` fits, item by item, `star` standing for any number of items.

    Goes back to the newest star alone, which is enough: so the cost is the product of the lengths, whatever the pattern.
    """
    at = place = 0
    newest, resume = -1, 0
    while at < len(given):
        if place < len(pattern) and pattern[place] == star:
            newest, resume = place, at
            place += 1
        elif place < len(pattern) and one_fits(pattern[place], given[at]):
            place += 1
            at += 1
        elif newest >= 0:
            place, resume = newest + 1, resume + 1
            at = resume
        else:
            return False
    return all(one == star for one in pattern[place:])
