"""Bytes of pages: unpacked within a bound, told apart, and read as text whatever the server says."""

from __future__ import annotations

import gzip
import zlib

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.fuzzing import examples
from tests.local_web import pdf, png

from loopwright.core.page_bytes import kind_of, text_of_page, unpacked


def test_packed_bytes_are_unpacked_in_each_of_their_forms() -> None:
    bare = zlib.compressobj(wbits=-15)
    for encoding, data in (
        ("", b"text"),
        ("gzip", gzip.compress(b"text")),
        ("deflate", zlib.compress(b"text")),
        ("deflate", bare.compress(b"text") + bare.flush()),
    ):
        assert unpacked(data, encoding, 100) == (b"text", False)


def test_unpacking_stops_at_the_limit_however_much_there_is() -> None:
    bomb = gzip.compress(b"\0" * 50_000_000)
    assert unpacked(bomb, "gzip", 1_000) == (b"\0" * 1_000, True)
    assert unpacked(gzip.compress(b"x" * 1_000), "gzip", 1_000) == (b"x" * 1_000, False)


@pytest.mark.parametrize("encoding", ["br", "zstd", "gzip, gzip", "compress"])
def test_packing_that_was_not_asked_for_is_refused(encoding: str) -> None:
    with pytest.raises(ValueError, match="not asked for"):
        unpacked(b"x", encoding, 100)
    with pytest.raises(ValueError, match="does not unpack"):
        unpacked(b"no gzip", "gzip", 100)


@pytest.mark.parametrize(
    "media_type, data, kind",
    [
        ("text/html", b"<p>x", "html"),
        ("text/html", png(), "picture"),
        ("text/html", pdf("x"), "pdf"),
        ("application/pdf", pdf("x"), "pdf"),
        ("text/plain", b"about %PDF-1.4", "text"),
        ("application/vnd.api+json", b"{}", "text"),
        ("image/svg+xml", b"<svg/>", "text"),
        ("image/png", png(), "picture"),
        ("", b"<!-- x --> <!DOCTYPE html><p>", "html"),
        ("application/octet-stream", b"plain", "text"),
        ("text/html", b"a\0b", None),
        ("text/plain", "ab".encode("utf-16"), "text"),
        ("application/zip", b"PK\x03\x04", None),
        ("video/mp4", b"text", None),
    ],
)
def test_a_page_is_what_its_bytes_say_it_is(media_type: str, data: bytes, kind: str | None) -> None:
    assert kind_of(media_type, data) == kind


@pytest.mark.parametrize(
    "data, charset, markup",
    [
        ("zażółć".encode(), "", False),
        ("zażółć".encode("iso8859-2"), "ISO-8859-2", False),
        (b"\xef\xbb\xbf" + "zażółć".encode(), "iso-8859-1", False),
        ("zażółć".encode("utf-16"), "", False),
        (b'<meta charset="iso-8859-2">' + "zażółć".encode("iso8859-2"), "", True),
        (b"<?xml version='1.0' encoding='iso-8859-2'?>" + "zażółć".encode("iso8859-2"), "no-such-code", True),
    ],
)
def test_text_is_read_in_the_encoding_that_it_has(data: bytes, charset: str, markup: bool) -> None:
    assert text_of_page(data, charset, markup=markup).endswith("zażółć")


def test_text_without_a_name_is_utf8_or_western() -> None:
    assert text_of_page("naïve".encode("cp1252"), "", markup=False) == "naïve"
    assert text_of_page("naïve – x".encode("cp1252"), "iso-8859-1", markup=False) == "naïve – x"
    assert text_of_page("naï".encode()[:-1], "", markup=False) == "na\ufffd"


@pytest.mark.parametrize(
    "charset", ["unicode_escape", "raw-unicode-escape", "idna", "punycode", "utf-7", "zip", "hex", "undefined"]
)
def test_an_encoding_that_no_page_has_is_not_used(charset: str) -> None:
    assert text_of_page(rb"a\u0041+AEE-", charset, markup=False) == r"a\u0041+AEE-"


@pytest.mark.fuzz
@settings(max_examples=examples(150))
@given(
    st.sampled_from(["", "text/html", "application/json", "image/png", "x"]),
    st.sampled_from(["", "utf-7", "idna", "zip", "hex", "unicode_escape", "utf-16", "latin-1", "undefined", "\0"]),
    st.binary(max_size=300),
)
def test_any_bytes_are_told_apart_and_read_without_a_fault(media_type: str, charset: str, data: bytes) -> None:
    kind_of(media_type, data)
    assert len(text_of_page(data, charset, markup=True)) <= len(data)
