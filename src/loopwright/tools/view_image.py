"""The tool that lets a model look at a picture of the workspace.

Owns: `view_image`, its limits. Must not know: which models can see (a request to one that cannot gets a text in place of the
picture), how escaping is prevented (`../jail.py`).
Read next: `../core/pictures.py`.
"""

from __future__ import annotations

from ..core.pictures import picture_facts
from ..model.messages import ImagePart, TextPart
from ..model.visible import visible
from ..model.web_errors import DocumentUnreadableError
from ..ports.tool import ToolDefinition, ToolHandlerResult
from .decorator import tool
from .descriptions import description_of
from .workspace import Workspace

MAX_PICTURE_BYTES = 10 * 1024 * 1024
MAX_PIXELS = 50_000_000
"""Width times height; providers make larger ones smaller or refuse them."""


def view_image_tool(workspace: Workspace) -> ToolDefinition:
    """`view_image` in a workspace. Effect pure."""

    @tool(description=description_of("view_image"), effect="pure", subjects={"path": "path"})
    def view_image(path: str) -> ToolHandlerResult:
        """Look at a picture.

        Args:
            path: The picture, relative to the workspace.
        """
        data = workspace.read_bytes(path, limit=MAX_PICTURE_BYTES + 1)
        shown = visible(path)
        if len(data) > MAX_PICTURE_BYTES:
            raise DocumentUnreadableError(shown, f"it has over {MAX_PICTURE_BYTES} bytes; make it smaller first")
        try:
            facts = picture_facts(data)
        except ValueError as error:
            raise DocumentUnreadableError(shown, str(error)) from error
        size = f"{facts.width}x{facts.height}"
        if facts.width * facts.height > MAX_PIXELS:
            raise DocumentUnreadableError(shown, f"it has {size} pixels, over {MAX_PIXELS}; make it smaller first")
        return ToolHandlerResult(
            (TextPart(f"{shown}: {facts.media_type}, {size}"), ImagePart(facts.media_type, data)),
            data={"media_type": facts.media_type, "width": facts.width, "height": facts.height, "bytes": len(data)},
        )

    return view_image
