"""What the model sees of a result, and where the rest of it is.

Owns: keeping a long output whole as an artifact and cutting what is shown. Must not know: who made the output.
Read next: `core/calls.py` for the cut.
"""

from __future__ import annotations

from ..core.calls import shortened
from ..model.messages import Content, content_text
from .kernel import Kernel


async def within_limit(kernel: Kernel, session_id: str, content: Content, limit: int) -> tuple[Content, str | None]:
    """(what the model sees, id of the artifact that holds the whole text); no artifact when it fits."""
    text = content_text(content)
    if len(text) <= limit:
        return content, None
    kernel.ambient.reach("artifact.before")
    artifact = await kernel.store.put_artifact(session_id, text.encode("utf-8", "surrogatepass"), "text/plain")
    kernel.ambient.reach("artifact.after")
    pointer = f"read_output(artifact_id={artifact.artifact_id!r}, offset=...) reads the rest"
    return shortened(content, limit, pointer), artifact.artifact_id
