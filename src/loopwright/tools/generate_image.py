"""The tool that makes a picture and saves it in the workspace.

Owns: `generate_image`: the name of the file, never replacing one. Must not know: the service (`image_endpoint.py`).
Read next: `image_endpoint.py`.
"""

from __future__ import annotations

import asyncio
import posixpath
from typing import Annotated

from msgspec import Meta

from ..core.fencing import from_outside
from ..model.call_errors import PathRefusedError
from ..ports.tool import ToolContext, ToolDefinition, ToolHandlerResult, UnknownOutcome
from .decorator import tool
from .descriptions import description_of
from .image_endpoint import ImageEndpoint, MadePicture
from .workspace import Workspace

_ENDS = (".png", ".jpg", ".jpeg", ".webp")
_MAX_NAMES = 100


def generate_image_tool(workspace: Workspace, endpoint: ImageEndpoint | None = None) -> ToolDefinition:
    """`generate_image` into a workspace; `endpoint` None is OpenAI's, with the key of the environment.

    Effect once: after a crash nothing is paid twice; whether the file is there tells what became of the call.
    Raises: `ConfigError` without a key.
    """
    service = endpoint or ImageEndpoint()

    def reconcile(call: UnknownOutcome) -> ToolHandlerResult | None:
        path = str(call.arguments.get("path", ""))
        if workspace.kind(path) != "file":
            return None
        return ToolHandlerResult(
            f"The process stopped during this call. {workspace.display(path)} was looked at afterwards: the picture is there."
        )

    @tool(
        description=description_of("generate_image"),
        effect="once",
        timeout_s=2 * service.timeout_s + 10,
        reconcile=reconcile,
        subjects={"path": "path"},
    )
    async def generate_image(
        prompt: Annotated[str, Meta(min_length=1, max_length=32_000)],
        path: str,
        ctx: ToolContext,
        size: Annotated[str, Meta(pattern=r"^(auto|[1-9][0-9]{1,4}x[1-9][0-9]{1,4})$")] | None = None,
    ) -> ToolHandlerResult:
        """Make a picture.

        Args:
            prompt: What is to be seen, and in which style.
            path: The new file, relative to the workspace; it ends in .png, .jpg or .webp.
            size: Width and height such as 1024x1024; the service decides without it.
        """
        _check(workspace, path)  # before anything is paid
        made = await service.make(prompt, size)
        name = await asyncio.to_thread(_saved, workspace, path, made.data)
        return _result(name, path, service.model, made)

    return generate_image


def _check(workspace: Workspace, path: str) -> None:
    if not path.lower().endswith(_ENDS):
        raise PathRefusedError(f"the path {path!r} must end in {', '.join(_ENDS)}")
    workspace.resolve(path)
    if workspace.kind(path) is not None:
        raise PathRefusedError(f"{workspace.display(path)} is there already and is never replaced; choose another name")


def _saved(workspace: Workspace, path: str, data: bytes) -> str:
    """Where the picture is: under another name when somebody took this one meanwhile, for it is paid. Blocks."""
    stem, end = posixpath.splitext(path)
    with workspace.editing:
        for number in range(1, _MAX_NAMES):
            name = path if number == 1 else f"{stem}-{number}{end}"
            if workspace.kind(name) is None:
                workspace.write_bytes(name, data)
                return workspace.display(name)
    raise PathRefusedError(f"{path} and {_MAX_NAMES} names beside it are taken; the picture was not saved")


def _result(name: str, path: str, model: str, made: MadePicture) -> ToolHandlerResult:
    facts = made.facts
    text = f"saved {name}: {facts.media_type}, {facts.width}x{facts.height}, {len(made.data)} bytes"
    if facts.media_type.removeprefix("image/").replace("jpeg", "jpg") != path.lower().rpartition(".")[2].replace(
        "jpeg", "jpg"
    ):
        text += "; its format is another one than its name says"
    if made.revised_prompt:
        text += "\nThe service made it from these words:\n" + from_outside(
            "the images service", made.revised_prompt[:4_000]
        )
    data = {
        "path": name,
        "media_type": facts.media_type,
        "width": facts.width,
        "height": facts.height,
        "bytes": len(made.data),
        "model": model,
        "usage": made.usage,
    }
    return ToolHandlerResult(text, data=data)
