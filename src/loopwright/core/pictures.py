"""What the first bytes of a picture say: its type, its width and its height.

Owns: reading the headers of PNG, JPEG, GIF and WebP; nothing is decoded. Must not know: files, providers.
Sources: PNG specification (third edition, 11.2.2), ITU T.81 (B.2.2), GIF89a (18), WebP container specification; November 2026.
Read next: `../tools/view_image.py`.
"""

from __future__ import annotations

from typing import Final, NamedTuple

_MAX_SEGMENTS: Final = 10_000
# Start of frame of every kind; 0xC4, 0xC8 and 0xCC are no frames.
_FRAMES: Final = frozenset(range(0xC0, 0xD0)) - {0xC4, 0xC8, 0xCC}


class PictureFacts(NamedTuple):
    """What a header says; the rest of the picture may still be damaged."""

    media_type: str
    width: int
    """Pixels."""
    height: int


def media_type_of(data: bytes) -> str | None:
    """The type of a picture by its first bytes; None for anything else."""
    if data.startswith(b"\x89PNG\r\n\x1a\n"):
        return "image/png"
    if data.startswith(b"\xff\xd8\xff"):
        return "image/jpeg"
    if data.startswith((b"GIF87a", b"GIF89a")):
        return "image/gif"
    if data[:4] == b"RIFF" and data[8:12] == b"WEBP":
        return "image/webp"
    return None


def picture_facts(data: bytes) -> PictureFacts:
    """Type and size of a picture. Raises: `ValueError` that says what is wrong with it."""
    media_type = media_type_of(data)
    if media_type is None:
        raise ValueError("it is no PNG, JPEG, GIF or WebP picture")
    size = _READERS[media_type](data)
    if size is None:
        raise ValueError(f"its {media_type.removeprefix('image/').upper()} header is damaged or cut")
    if 0 in size:
        raise ValueError("it says that it has no pixels")
    return PictureFacts(media_type, *size)


def _png(data: bytes) -> tuple[int, int] | None:
    if len(data) < 33 or data[8:16] != b"\0\0\0\rIHDR":
        return None
    return int.from_bytes(data[16:20], "big"), int.from_bytes(data[20:24], "big")


def _gif(data: bytes) -> tuple[int, int] | None:
    if len(data) < 13:
        return None
    return int.from_bytes(data[6:8], "little"), int.from_bytes(data[8:10], "little")


def _jpeg(data: bytes) -> tuple[int, int] | None:
    """Goes along the segments to the start of a frame."""
    at = 2
    for _ in range(_MAX_SEGMENTS):
        while data[at : at + 2] == b"\xff\xff":  # a marker may have any number of these before it
            at += 1
        if len(data) < at + 9 or data[at] != 0xFF:
            return None
        marker = data[at + 1]
        length = int.from_bytes(data[at + 2 : at + 4], "big")
        if marker in _FRAMES:
            return int.from_bytes(data[at + 7 : at + 9], "big"), int.from_bytes(data[at + 5 : at + 7], "big")
        if marker in (0xD8, 0xD9, 0xDA) or length < 2:
            return None
        at += 2 + length
    return None


def _webp(data: bytes) -> tuple[int, int] | None:
    if len(data) < 30:
        return None
    kind = data[12:16]
    if kind == b"VP8X":
        return int.from_bytes(data[24:27], "little") + 1, int.from_bytes(data[27:30], "little") + 1
    if kind == b"VP8L" and data[20] == 0x2F:
        bits = int.from_bytes(data[21:25], "little")
        return (bits & 0x3FFF) + 1, (bits >> 14 & 0x3FFF) + 1
    if kind == b"VP8 " and data[23:26] == b"\x9d\x01\x2a":
        return int.from_bytes(data[26:28], "little") & 0x3FFF, int.from_bytes(data[28:30], "little") & 0x3FFF
    return None


_READERS: Final = {"image/png": _png, "image/jpeg": _jpeg, "image/gif": _gif, "image/webp": _webp}
