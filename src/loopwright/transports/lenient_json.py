"""JSON that a provider sent, decoded strictly first and leniently where that fails.

Owns: the two-step decoding. Must not know: which shape is decoded.
Read next: `openai_chat.py`.
"""

from __future__ import annotations

import json
from typing import TypeVar

import msgspec

from .json_values import checked_depth, map_texts
from .wire_parts import clean_text

T = TypeVar("T")


def decode_lenient(decoder: msgspec.json.Decoder[T], data: bytes) -> T:
    """Decodes `data`; a second, slower try takes what strict JSON or UTF-8 refuses: lone surrogates, stray bytes.

    Raises: `ValueError` when it is not JSON not of the wanted shape, or nested too deeply.
    """
    checked_depth(data)
    try:
        return decoder.decode(data)
    except msgspec.ValidationError:
        raise
    except ValueError:
        value = json.loads(data.decode("utf-8", "replace").lstrip("\ufeff"), strict=False)
        return msgspec.convert(map_texts(value, clean_text), decoder.type, strict=False)
