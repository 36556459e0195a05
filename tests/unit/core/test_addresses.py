"""What may be reached: no notation of a private address gets through, and every public one does."""

from __future__ import annotations

import ipaddress
import socket

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.fuzzing import examples

from loopwright.core.addresses import address_problem, host_matches, host_problem, same_site

PRIVATE = [
    "0.0.0.0",
    "10.0.0.1",
    "100.64.0.1",
    "100.100.100.200",
    "127.0.0.1",
    "127.255.255.254",
    "168.63.129.16",
    "169.254.169.254",
    "172.16.0.1",
    "172.31.255.255",
    "192.0.0.192",
    "192.168.1.1",
    "198.18.0.1",
    "203.0.113.9",
    "224.0.0.1",
    "239.255.255.255",
    "240.0.0.1",
    "255.255.255.255",
    "::",
    "::1",
    "::7f00:1",
    "::ffff:127.0.0.1",
    "::ffff:a9fe:a9fe",
    "::ffff:0:10.0.0.1",
    "64:ff9b::127.0.0.1",
    "64:ff9b::a9fe:a9fe",
    "64:ff9b:1::1",
    "100::1",
    "2001::1",
    "2001:db8::1",
    "2002:7f00:1::",
    "2002:a9fe:a9fe::1",
    "3fff::1",
    "5f00::1",
    "fc00::1",
    "fd00:ec2::254",
    "fe80::1",
    "fec0::1",
    "ff02::1",
]
PUBLIC = [
    "1.1.1.1",
    "8.8.8.8",
    "93.184.216.34",
    "172.32.0.1",
    "2606:4700::1111",
    "2a00:1450:4001::1",
    "64:ff9b::8.8.8.8",
]
# An oracle of another kind: what the standard library calls private, in the forms that carry IPv4.
_V4 = st.integers(0, 2**32 - 1).map(ipaddress.IPv4Address)
_CARRIERS = st.sampled_from([0xFFFF << 32, 0x64FF9B << 96, 0xFFFF << 48])


@pytest.mark.parametrize("address", PRIVATE)
def test_an_address_that_is_not_public_is_refused(address: str) -> None:
    assert address_problem(address) is not None


@pytest.mark.parametrize("address", PUBLIC)
def test_a_public_address_may_be_reached(address: str) -> None:
    assert address_problem(address) is None


@pytest.mark.parametrize(
    "text",
    [
        "0177.0.0.1",
        "0x7f.0.0.1",
        "2130706433",
        "127.1",
        "1.1.1.1 ",
        "fe80::1%eth0",
        "2606:4700::1%1",
        "a.b",
        "",
        "１.1.1.1",
    ],
)
def test_what_is_no_plain_address_is_refused(text: str) -> None:
    assert address_problem(text) is not None


def test_a_network_that_the_host_allows_may_be_reached_and_no_other() -> None:
    allowed = [ipaddress.ip_network("10.1.0.0/16")]
    assert address_problem("10.1.2.3", allowed) is None
    assert address_problem("::ffff:10.1.2.3", allowed) is None
    assert address_problem("10.2.0.1", allowed) is not None


@pytest.mark.fuzz
@settings(max_examples=examples(200))
@given(_V4, _CARRIERS)
def test_an_address_that_carries_another_is_treated_as_that_one(v4: ipaddress.IPv4Address, carrier: int) -> None:
    carried = str(ipaddress.IPv6Address(carrier + int(v4)))
    assert (address_problem(carried) is None) == (address_problem(str(v4)) is None)
    if not v4.is_global:
        assert address_problem(str(v4)) is not None


@pytest.mark.fuzz
@settings(max_examples=examples(200))
@given(st.integers(0, 2**128 - 1).map(ipaddress.IPv6Address))
def test_no_ipv6_address_outside_of_the_public_range_gets_through(address: ipaddress.IPv6Address) -> None:
    if address_problem(str(address)) is None:
        assert address.is_global
        assert address in ipaddress.ip_network("2000::/3") or address in ipaddress.ip_network("64:ff9b::/96")


@pytest.mark.parametrize(
    "host",
    [
        "2130706433",
        "0x7f000001",
        "0177.0.0.1",
        "127.1",
        "127.0.1",
        "0x7f.1",
        "1.2.3.4.5",
        "1.2.3.256",
        "a..b",
        "",
        "-a.b",
        "a b",
        "exa%6dple.org",
        "a\\b",
        "::g",
        "fe80::1%25eth0",
        "a" * 64 + ".org",
        "a." * 130 + "org",
        "00.0.0.0",
        "ex\u0430mple",
    ],
)
def test_a_host_in_an_odd_notation_is_refused(host: str) -> None:
    assert host_problem(host) is not None


@pytest.mark.parametrize(
    "host", ["example.org", "example.org.", "a_b.c", "1.1.1.1", "2606:4700::1111", "xn--mnchen-3ya.de", "1and1.com"]
)
def test_a_host_in_its_plain_notation_is_taken(host: str) -> None:
    assert host_problem(host) is None


@pytest.mark.fuzz
@settings(max_examples=examples(300))
@given(
    st.lists(
        st.sampled_from(["0x7f", "127", "0", "1", "0177", "017700000001", "2130706433", "256"]), min_size=1, max_size=5
    )
)
def test_no_number_that_the_system_reads_as_an_address_is_taken_for_a_name(parts: list[str]) -> None:
    host = ".".join(parts)
    if host_problem(host) is None:
        assert ipaddress.ip_address(host) == ipaddress.ip_address(socket.inet_ntoa(socket.inet_aton(host)))


def test_patterns_of_hosts_fit_a_host_or_all_below_one() -> None:
    assert host_matches("Example.org.", ["example.ORG"])
    assert not host_matches("www.example.org", ["example.org"])
    assert host_matches("a.b.example.org", ["*.example.org"])
    assert not host_matches("example.org", ["*.example.org"])
    assert not host_matches("evilexample.org", ["*.example.org"])
    assert host_matches("anything", ["*"])
    assert not host_matches("anything", [])
    assert same_site("www.example.org", "example.org.")
    assert not same_site("a.example.org", "example.org")
