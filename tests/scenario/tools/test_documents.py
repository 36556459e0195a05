"""PDF files and pictures of the workspace, and pages that are made to hurt: read, or refused in words."""

from __future__ import annotations

import io
import zlib
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pypdf import PdfReader, PdfWriter
from tests.fuzzing import examples
from tests.local_web import pdf, png
from tests.scenario.tools.toolbox import Toolbox

from loopwright import StatefulAgentLoop
from loopwright.model.errors import CancellationRequested
from loopwright.model.messages import ImagePart, ToolResultMessage
from loopwright.model.web_errors import DocumentUnreadableError
from loopwright.ports.llm import LLMRequest
from loopwright.testing import ScriptedLLM, calls
from loopwright.testing.tool_context import FakeToolContext
from loopwright.tools import create_default_tool_registry
from loopwright.tools.document_text import page_text
from loopwright.tools.document_worker import html_text, pdf_text


@pytest.fixture
def box(tmp_path: Path) -> Toolbox:
    return Toolbox(create_default_tool_registry("explore", workspace=tmp_path, include=("view_image",)))


async def test_a_pdf_is_read_by_pages(box: Toolbox, tmp_path: Path) -> None:
    (tmp_path / "paper").write_bytes(pdf(*[f"text of {n}" for n in range(1, 26)]))
    first = await box.text("read_file", path="paper")
    assert first.startswith("[page 1]\ntext of 1\n\n[page 2]\n")
    assert first.endswith("[page 20]\ntext of 20\n\n(pages 1-20 of 25; continue with offset=21)")
    assert (
        await box.text("read_file", path="paper", offset=25, limit=5) == "[page 25]\ntext of 25\n\n(pages 25-25 of 25)"
    )
    assert "page 26 is past its end" in await box.failure("read_file", path="paper", offset=26)


async def test_a_pdf_that_is_locked_damaged_or_a_bomb_is_refused_and_says_why(box: Toolbox, tmp_path: Path) -> None:
    writer = PdfWriter()
    writer.append(PdfReader(io.BytesIO(pdf("secret"))))
    writer.encrypt("password", algorithm="RC4-128")
    with (tmp_path / "locked").open("wb") as file:
        writer.write(file)
    (tmp_path / "damaged").write_bytes(b"%PDF-1.4\n" + b"\xff" * 5_000)
    (tmp_path / "bomb").write_bytes(pdf("", stream=zlib.compress(b" " * 80_000_000, 1)))
    assert "needs a password" in await box.failure("read_file", path="locked")
    assert "cannot be read: " in await box.failure("read_file", path="damaged")
    shown = await box.text("read_file", path="bomb")
    assert "this page cannot be read" in shown


@pytest.mark.parametrize(
    "html, has",
    [
        ("<div>" * 3_000 + "deep", "deep"),
        ("<b>" * 3_000 + "bold", "bold"),
        ("<p " + "x='1' " * 20_000 + ">many", "many"),
        ("a" + " " * 300_000 + "b", "b"),
        ("x<a>" * 5_000 + "end", "end"),
        ("<p>one<p>two", "one\n\ntwo"),
        ("<table><tr><td>1<td>2<tr><td>3<td>4</table>", "| 1 | 2 |"),
        ("<a href='javascript:x()'>js</a><a href='http://[bad'>bad</a>", "jsbad"),
        ("<a href='//b.test/x y'>there</a>", "[there](https://b.test/x y)"),
        ("<img src='data:image/png;base64,AAAA' alt=pic>kept", "kept"),
        ("<!-- hidden --><p aria-hidden=true>no<p>yes", "yes"),
    ],
)
def test_a_page_of_an_odd_shape_still_gives_its_text(html: str, has: str) -> None:
    text = html_text(html, "https://a.test/", 100_000)["text"]
    assert has in text
    assert "hidden" not in text
    assert "AAAA" not in text


def test_a_stop_ends_the_reading_of_a_page_that_takes_for_ever() -> None:
    context = FakeToolContext()
    context.cancellation.cancel("enough")
    with pytest.raises(CancellationRequested, match="enough"):
        page_text("<![CDATA[" * 200_000, "https://a.test/", context.cancellation)


_PIECES = st.sampled_from(
    [
        "<p>",
        "</p>",
        "<a href='x'>",
        "</a>",
        "<ul><li>",
        "<td>",
        "<table>",
        "<pre>",
        "<!--",
        "-->",
        "<![CDATA[",
        "&amp;",
        "&#x;",
        "<script>",
        "</script>",
        "<base href='//b'>",
        "<img alt=a src=b>",
        "<title>",
        "\0",
        "<",
        ">",
        "'",
        "text",
        "\n\n",
        " ",
        "<h1>",
        "<svg>",
    ]
)


@pytest.mark.fuzz
@settings(max_examples=examples(60), deadline=None)
@given(st.lists(_PIECES | st.text(max_size=5), max_size=40).map("".join))
def test_any_html_gives_a_text_within_its_bound(html: str) -> None:
    found = html_text(html, "https://a.test/", 200)
    assert len(found["text"]) <= 200
    assert len(found["title"]) <= 300
    found["text"].encode()


@pytest.mark.fuzz
@settings(max_examples=examples(40), deadline=None)
@given(st.data())
def test_any_change_of_a_pdf_is_read_or_refused(data: st.DataObject) -> None:
    whole = bytearray(pdf("one", "two"))
    for _ in range(data.draw(st.integers(1, 6))):
        at = data.draw(st.integers(0, len(whole) - 1))
        whole[at : at + data.draw(st.integers(0, 20))] = data.draw(st.binary(max_size=20))
    try:
        found = pdf_text(bytes(whole), 1, 10, 500)
    except Exception:  # noqa: BLE001 - the worker turns whatever a parser raises into words
        return
    assert "problem" in found or sum(len(text) for _, text in found["pages"]) <= 500 + 300


async def test_a_picture_is_put_before_a_model_that_can_see_and_a_text_before_others(tmp_path: Path) -> None:
    (tmp_path / "p.png").write_bytes(png(6, 4))
    seen: list[LLMRequest] = []

    def look(request: LLMRequest) -> str:
        seen.append(request)
        return "done"

    tools = create_default_tool_registry("explore", workspace=tmp_path, include=("view_image",))
    model = ScriptedLLM([calls(("view_image", {"path": "p.png"})), look])
    async with StatefulAgentLoop(llm=model, tools=tools) as loop:
        await loop.send("look")
    result = seen[0].messages[-1]
    assert isinstance(result, ToolResultMessage)
    assert not isinstance(result.content, str)
    assert result.text == "p.png: image/png, 6x4"
    assert result.content[1] == ImagePart("image/png", png(6, 4))


@pytest.mark.parametrize(
    "data, why", [(b"text", "no PNG"), (b"\x89PNG\r\n\x1a\n", "damaged"), (png(60_000, 60_000), "over")]
)
async def test_what_is_no_picture_or_too_large_is_refused(box: Toolbox, tmp_path: Path, data: bytes, why: str) -> None:
    (tmp_path / "p").write_bytes(data)
    message = await box.failure("view_image", path="p")
    assert why in message
    assert "does not exist" in await box.failure("view_image", path="q")


def test_an_error_of_a_document_carries_its_facts() -> None:
    error: Any = DocumentUnreadableError("a.pdf", "why")
    assert (error.name, error.why, error.code) == ("a.pdf", "why", "document.unreadable")
