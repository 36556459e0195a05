"""Which places of the network may be reached for a stranger's sake: addresses, and names of hosts.

Owns: the rule for addresses and the patterns of hosts. Must not know: who resolves a name, what is fetched.
Only what is open to everybody may be reached. The tables of RFC 6890 name the rest, and an address that carries another one
inside (IPv4 in IPv6) counts as the one it carries.
Read next: `../tools/web_access.py`.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterable, Sequence
from typing import Final, TypeAlias

Address: TypeAlias = ipaddress.IPv4Address | ipaddress.IPv6Address
Network: TypeAlias = ipaddress.IPv4Network | ipaddress.IPv6Network

# IANA special-purpose registries (November 2026), and what clouds put beside them.
_REFUSED: Final = (
    ("0.0.0.0/8", "this host"),
    ("10.0.0.0/8", "private"),
    ("100.64.0.0/10", "shared by a carrier"),
    ("127.0.0.0/8", "loopback"),
    ("168.63.129.16/32", "a cloud's own service"),
    ("169.254.0.0/16", "link-local"),
    ("172.16.0.0/12", "private"),
    ("192.0.0.0/24", "reserved"),
    ("192.0.2.0/24", "reserved"),
    ("192.88.99.0/24", "a relay"),
    ("192.168.0.0/16", "private"),
    ("198.18.0.0/15", "reserved"),
    ("198.51.100.0/24", "reserved"),
    ("203.0.113.0/24", "reserved"),
    ("224.0.0.0/4", "multicast"),
    ("240.0.0.0/4", "reserved"),
    ("::/127", "loopback or this host"),
    ("fc00::/7", "private"),
    ("fe80::/10", "link-local"),
    ("ff00::/8", "multicast"),
    ("2001::/23", "reserved"),
    ("2001:db8::/32", "reserved"),
    ("2002::/16", "a relay"),
    ("3fff::/20", "reserved"),
)
_NETWORKS: Final = tuple((ipaddress.ip_network(text), why) for text, why in _REFUSED)
_PUBLIC_V6: Final = ipaddress.IPv6Network("2000::/3")
_MAPPED: Final = ipaddress.IPv6Network("::ffff:0:0/96")
_TRANSLATED: Final = (ipaddress.IPv6Network("64:ff9b::/96"), ipaddress.IPv6Network("::ffff:0:0:0/96"))

# The last label of a name is a number only where the whole is an IPv4 address in some notation.
_NUMBER: Final = re.compile(r"\d+|0x[0-9a-f]*", re.IGNORECASE)
_LABEL: Final = re.compile(r"[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?")


def address_problem(address: str, allowed: Iterable[Network] = ()) -> str | None:
    """Why nothing may be sent to an address, None when it may; `allowed` are networks that may be reached in any case.

    Whatever is no address in its plain notation is refused: names, zones, octal and hexadecimal numbers.
    """
    try:
        found = ipaddress.ip_address(address)
    except ValueError:
        return "no address"
    if any(found in network for network in allowed if network.version == found.version):
        return None
    if found.version == 6:
        if found.scope_id is not None:
            return "it names a zone of this machine"
        carried = _carried(found)
        if carried is not None:
            return address_problem(str(carried), allowed)
    for network, why in _NETWORKS:
        if network.version == found.version and found in network:
            return why
    # Python's own table may know more than ours; in doubt the answer is no.
    if not found.is_global or found.is_multicast or (found.version == 6 and found not in _PUBLIC_V6):
        return "not public"
    return None


def _carried(address: ipaddress.IPv6Address) -> ipaddress.IPv4Address | None:
    """The IPv4 address that whoever is sent to `address` reaches, where that can be told; None for all others."""
    if address in _MAPPED or any(address in network for network in _TRANSLATED):
        return ipaddress.IPv4Address(int(address) & 0xFFFFFFFF)
    return None


def host_problem(host: str) -> str | None:
    """Why `host`, in lower case and ASCII, cannot be the host of an address on the web; None when it can.

    A name whose last part is a number would be read as an IPv4 address by some and not by others, so only the plain form of
    four decimal numbers is taken.
    """
    if ":" in host:
        return None if "%" not in host and _is_address(host) else "its host is not an IPv6 address"
    name = host.removesuffix(".")
    if len(name) > 253 or not all(_LABEL.fullmatch(label) for label in name.split(".")):
        return "its host is not a name"
    if _NUMBER.fullmatch(name.rsplit(".", 1)[-1]):
        return None if _is_address(host) else "its host is a number and not an address of four decimal numbers"
    return None


def _is_address(host: str) -> bool:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True


def plain_host(host: str) -> str:
    """How hosts are compared: in lower case, without the last dot."""
    return host.lower().removesuffix(".")


def host_matches(host: str, patterns: Sequence[str]) -> bool:
    """True when a pattern fits: `example.org` that host alone, `*.example.org` all below it, `*` every host."""
    name = plain_host(host)
    for pattern in map(plain_host, patterns):
        if pattern in ("*", name) or (pattern.startswith("*.") and name.endswith(pattern[1:])):
            return True
    return False


def same_site(one: str, other: str) -> bool:
    """True for one host, with or without `www.` before it."""
    return plain_host(one).removeprefix("www.") == plain_host(other).removeprefix("www.")
