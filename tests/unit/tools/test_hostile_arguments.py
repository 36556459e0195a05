"""Whatever a model writes as arguments: a tool answers or says why not, and nothing outside of its workspace changes.

The cases are made from each tool's own schema, with hostile values in the places of plain ones, and as any JSON at all.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.fuzzing import examples

from loopwright.model.errors import LoopwrightError
from loopwright.ports.history import HistoryPiece
from loopwright.ports.shell import ShellLaunch
from loopwright.ports.tool import ToolDefinition
from loopwright.testing.tool_context import FakeToolContext
from loopwright.tools import ToolRegistry, create_default_tool_registry

SECRET = "the secret outside"


class Echo:
    """A backend that shows the command instead of running it: what is tested is the tool, not what a shell may do."""

    def launch(self, command: str, workspace: str) -> ShellLaunch:
        return ShellLaunch(("/bin/echo", command), workspace, {})


NAMES = st.sampled_from(
    [
        *("a.txt", "src/app.py", "src", ".", "..", "/", "", "new/deep/file", "out/secret", "up/up", "../outside/secret", "pipe"),
        *("@home/x", "@workspace/a.txt", "~/x", "a\0b", "x" * 300, "\ufffd", "é/ü", "circle", "a.txt/below", "//etc//passwd"),
        *("**/*", "[", "{a,b}", "*" * 40, "OUTSIDE/secret", "OUTSIDE", "/proc/self/environ", "/dev/zero", "link", "-rf", "--help"),
    ]
)  # fmt: skip
TEXTS = NAMES | st.text(st.characters(codec="utf-8"), max_size=20) | st.sampled_from(
    ["x = 1\n", "hello", "(a+)+$", "(", "\\", "\r\n", "\x1b]0;x\x07", "\u202e", "é" * 500, "*** Begin Patch", "null", "-1", "9" * 40]
) | st.sampled_from(
    [
        "*** Begin Patch\n*** Add File: ../outside/new\n+x\n*** End Patch",
        "*** Begin Patch\n*** Update File: out/secret\n@@\n-the secret\n+x\n*** End Patch",
        "*** Begin Patch\n*** Delete File: a.txt\n*** Add File: n.txt\n+\ufffd\n*** End Patch",
        "*** Begin Patch\n*** Update File: a.txt\n*** Move to: /etc/x\n@@\n-hello\n+x\n*** End Patch",
        "--- a/a.txt\n+++ b/../../x\n@@ -1 +1 @@\n-hello\n+x\n",
    ]
)  # fmt: skip
NUMBERS = st.sampled_from([0, 1, -1, 2, 10, 100, 2**31, 2**63, -(2**63), 10**30, 0.5, -0.0, 1e308, True])
SCALARS = st.none() | st.booleans() | NUMBERS | TEXTS
ANY_JSON = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXTS, inner, max_size=4), max_leaves=8
)


def fitting(schema: Any) -> st.SearchStrategy[Any]:
    """Values that mostly fit a JSON Schema, as far as our own tools use it."""
    if not isinstance(schema, dict):
        return ANY_JSON
    for several in ("anyOf", "oneOf"):
        if several in schema:
            return st.one_of([fitting(one) for one in schema[several]])
    if "enum" in schema:
        return st.sampled_from(schema["enum"])
    if "const" in schema:
        return st.just(schema["const"])
    kind = schema.get("type")
    if isinstance(kind, list):
        return st.one_of([fitting({**schema, "type": one}) for one in kind])
    match kind:
        case "string":
            return TEXTS.map(lambda text: text[: schema.get("maxLength", 1000)])
        case "integer":
            low, high = schema.get("minimum", -3), schema.get("maximum", 2**40)
            return st.integers(low, max(low, min(high, low + 200))) | NUMBERS
        case "number":
            return st.floats(schema.get("minimum", -3), schema.get("maximum", 1e9)) | NUMBERS
        case "boolean":
            return st.booleans()
        case "null":
            return st.none()
        case "array":
            return st.lists(fitting(schema.get("items", {})), max_size=min(schema.get("maxItems", 4), 4))
        case "object":
            return objects(schema)
        case _:
            return ANY_JSON


def objects(schema: dict[str, Any]) -> st.SearchStrategy[dict[str, Any]]:
    fields = {name: fitting(inner) for name, inner in schema.get("properties", {}).items()}
    needed = {name: fields[name] for name in schema.get("required", ()) if name in fields}
    return st.fixed_dictionaries(needed, optional={name: one for name, one in fields.items() if name not in needed})


@contextmanager
def place() -> Iterator[tuple[Path, Path]]:
    """A workspace with links of every kind, and a folder outside that nothing may touch."""
    with tempfile.TemporaryDirectory() as folder:
        top = Path(os.path.realpath(folder))
        root, outside = top / "w", top / "outside"
        (root / "src").mkdir(parents=True)
        outside.mkdir()
        (root / "a.txt").write_text("hello\n")
        (root / "src" / "app.py").write_text("x = 1\n" * 3)
        (outside / "secret").write_text(SECRET)
        for name, target in {"out": str(outside), "up": "..", "circle": "circle", "link": "../outside/secret"}.items():
            (root / name).symlink_to(target)
        os.mkfifo(root / "pipe")
        yield root, outside


def outside_of(outside: Path) -> dict[str, str]:
    return {str(path.relative_to(outside.parent)): path.read_text() for path in outside.rglob("*")} | {
        path.name: "" for path in outside.parent.iterdir()
    }


def placed(value: Any, outside: Path) -> Any:
    """The value with the real folder outside in place of its name."""
    if isinstance(value, str):
        return value.replace("OUTSIDE", str(outside))
    if isinstance(value, list):
        return [placed(one, outside) for one in value]
    if isinstance(value, dict):
        return {name: placed(one, outside) for name, one in value.items()}
    return value


async def answered(registry: ToolRegistry, tool: ToolDefinition, arguments: dict[str, Any]) -> str:
    """What the tool answers or why it does not; anything but an error of ours is a crash."""
    if (why := registry.problems(tool.name, arguments)) is not None:
        return why
    history = [HistoryPiece(1, 1, "user", "hello there")]
    context = FakeToolContext(tool_name=tool.name, outputs={"a.txt": "hello\n" * 50}, history=history)
    context.answers = ["yes"] * 3
    assert tool.handler is not None
    try:
        value = tool.handler(arguments, context)
        return repr(await value if tool.is_async else value)
    except LoopwrightError as error:
        return str(error)


REGISTRY = create_default_tool_registry("full", workspace=tempfile.gettempdir(), shell_backend=Echo())
TOOLS = [name for name in REGISTRY.names() if name != "grep"]


@pytest.mark.fuzz
@pytest.mark.parametrize("name", TOOLS)
@settings(max_examples=examples(5), deadline=None, suppress_health_check=list(HealthCheck))
@given(data=st.data())
async def test_any_arguments_are_answered_inside_of_the_workspace(name: str, data: st.DataObject) -> None:
    with place() as (root, outside):
        registry = create_default_tool_registry("full", workspace=root, shell_backend=Echo())
        tool = registry.get(name)
        assert tool is not None
        before = outside_of(outside)
        for _ in range(data.draw(st.integers(1, 3))):
            arguments = placed(data.draw(objects(tool.parameters)), outside)
            said = await answered(registry, tool, arguments)
            assert SECRET not in said or name == "bash"
            assert outside_of(outside) == before


@pytest.mark.fuzz
@settings(max_examples=examples(5), deadline=None, suppress_health_check=list(HealthCheck))
@given(data=st.data())
async def test_a_search_with_any_pattern_ends_and_stays_inside(data: st.DataObject) -> None:
    with place() as (root, outside):
        registry = create_default_tool_registry("full", workspace=root, shell_backend=Echo())
        tool = registry.get("grep")
        assert tool is not None
        said = await answered(registry, tool, placed(data.draw(objects(tool.parameters)), outside))
        assert SECRET not in said


@pytest.mark.fuzz
@settings(max_examples=examples(40), deadline=None, suppress_health_check=list(HealthCheck))
@given(
    st.sampled_from(REGISTRY.names()),
    st.dictionaries(TEXTS | st.sampled_from(["path", "command", "pattern"]), ANY_JSON, max_size=5),
)
async def test_any_json_is_judged_by_the_schema_without_a_crash(name: str, arguments: dict[str, Any]) -> None:
    why = REGISTRY.problems(name, arguments)
    assert why is None or (why and len(why) < 100_000)
