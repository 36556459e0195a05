"""What a run keeps of the outputs of its steps.

Owns: the bounds of what a record holds; the rest is an artifact of the run. Must not know: who reads them
(`workflow_values.py`). Read next: `outputs.py`.
"""

from __future__ import annotations

from typing import Any, Final

from ..core.text_ranges import encoded
from ..model.codec import encode
from .kernel import Kernel

INLINE: Final = 32_768
"""Bytes of an output that a record holds."""

SHOWN: Final = 1_000
"""Characters of a longer one that stay in the record."""


async def kept_output(kernel: Kernel, session_id: str, text: str, data: Any) -> tuple[str, Any, str | None]:
    """(text, data, id of the artifact that holds the whole) of an output; a structured one is not kept as text as well."""
    if data is not None:
        body = encode(data)
        if len(body) <= INLINE:
            return "", data, None
        return text[:SHOWN], None, await _put(kernel, session_id, body, "application/json")
    if len(text) <= INLINE // 4 or len(whole := encoded(text)) <= INLINE:
        return text, None, None
    return text[:SHOWN], None, await _put(kernel, session_id, whole, "text/plain")


async def _put(kernel: Kernel, session_id: str, body: bytes, media_type: str) -> str:
    kernel.ambient.reach("artifact.before")
    artifact = await kernel.store.put_artifact(session_id, body, media_type)
    kernel.ambient.reach("artifact.after")
    return artifact.artifact_id
