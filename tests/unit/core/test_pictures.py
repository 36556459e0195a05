"""Headers of pictures: type and size are read without decoding, and no bytes make a reader fail in another way."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.fuzzing import examples
from tests.local_web import png

from loopwright.core.pictures import PictureFacts, media_type_of, picture_facts

_JPEG_START = b"\xff\xd8\xff\xe0\x00\x10JFIF\0" + b"\0" * 9


def _jpeg(width: int, height: int, frame: int = 0xC0) -> bytes:
    return _JPEG_START + b"\xff\xff\xff" + bytes([frame]) + struct.pack(">HBHHB", 11, 8, height, width, 3) + b"\0" * 20


def _webp(kind: bytes, body: bytes) -> bytes:
    return b"RIFF\0\0\0\0WEBP" + kind + b"\0\0\0\0" + body + b"\0" * 20


PICTURES = [
    (png(640, 480), PictureFacts("image/png", 640, 480)),
    (b"GIF89a" + struct.pack("<HH", 320, 200) + b"\0" * 10, PictureFacts("image/gif", 320, 200)),
    (_jpeg(1024, 768), PictureFacts("image/jpeg", 1024, 768)),
    (_jpeg(7, 9, 0xC2), PictureFacts("image/jpeg", 7, 9)),
    (
        _webp(b"VP8X", b"\0\0\0\0" + (99).to_bytes(3, "little") + (49).to_bytes(3, "little")),
        PictureFacts("image/webp", 100, 50),
    ),
    (_webp(b"VP8L", b"\x2f" + (99 | 49 << 14).to_bytes(4, "little")), PictureFacts("image/webp", 100, 50)),
    (_webp(b"VP8 ", b"\0\0\0\x9d\x01\x2a" + struct.pack("<HH", 100, 50)), PictureFacts("image/webp", 100, 50)),
]


@pytest.mark.parametrize("data, facts", PICTURES, ids=lambda value: getattr(value, "media_type", ""))
def test_type_and_size_are_read_from_the_header(data: bytes, facts: PictureFacts) -> None:
    assert picture_facts(data) == facts


@pytest.mark.parametrize("data", [b"", b"<svg/>", b"\x89PNG\r\n\x1a\n", b"GIF89a", b"\xff\xd8\xff", b"BM12", png(0, 5)])
def test_what_is_no_whole_header_is_refused_in_words(data: bytes) -> None:
    with pytest.raises(ValueError, match=r"picture|header|pixels"):
        picture_facts(data)


@pytest.mark.fuzz
@settings(max_examples=examples(200))
@given(
    st.sampled_from(
        [
            b"\x89PNG\r\n\x1a\n",
            b"GIF89a",
            _JPEG_START,
            b"\xff\xd8\xff",
            b"RIFF\0\0\0\0WEBPVP8 ",
            b"RIFF\0\0\0\0WEBPVP8L",
        ]
    ),
    st.binary(max_size=200),
)
def test_any_bytes_behind_a_known_beginning_are_read_or_refused(start: bytes, rest: bytes) -> None:
    try:
        facts = picture_facts(start + rest)
    except ValueError:
        return
    assert facts.media_type == media_type_of(start + rest)
    assert 0 < facts.width < 2**32
    assert 0 < facts.height < 2**32
