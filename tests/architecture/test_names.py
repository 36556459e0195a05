"""One word, one place: names of modules and classes, width of calls and classes, hidden imports, docstrings."""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterator

from tests.architecture.source_tree import (
    PACKAGE,
    ROOT,
    Definition,
    Function,
    decorators,
    definitions,
    matching,
    modules,
)

MAX_PUBLIC_METHODS = 12
MAX_PARAMETERS = 7

MEANINGLESS = {"base", "common", "helpers", "manager", "utils"}

# Module name → why two files may share it. The deliberate pairs are a port and what implements it, or an engine part and
# the tool through which a model reaches it.
SHARED_MODULE_NAMES: dict[str, str] = {
    "board": "ports/board is the promise, tools/board the tools that a model calls",
    "memory": "ports/memory is what an agent remembers; stores/memory is the store without a disk",
    "shell": "ports/shell is the promise, tools/shell the tool that a model calls",
    "timers": "engine/timers fires what tools/timers lets a model set",
}

# Dotted name, or `prefix.*` → why.
WIDE_CLASSES: dict[str, str] = {
    "loopwright.stores.memory.MemoryStore": "implements Store, ArtifactStore and StoreAdmin: one object is what a host opens",
    "loopwright.stores.encrypted.EncryptedStore": "implements Store, ArtifactStore and StoreAdmin around another store",
    "loopwright.stores.server.ServerStore": "implements Store, ArtifactStore and StoreAdmin: one object is what a host opens",
    "loopwright.stores.postgres_wake.PostgresStore": "the same, on PostgreSQL",
    "loopwright.stores.sqlite.SqliteStore": "implements Store, ArtifactStore and StoreAdmin: one object is what a host opens",
    "loopwright.ports.tool.ToolContext": "all that a handler may know and do, in one place for those who write handlers",
    "loopwright.engine.handler_context.HandlerContext": "implements ToolContext",
    "loopwright.loop.StatefulAgentLoop": "the public handle: everything a host does with a session, without rules of its own",
    "loopwright.session_access.SessionAccess": "the part of the public handle that needs no turn of a session",
}
WIDE_CALLS: dict[str, str] = {
    "loopwright.loop.StatefulAgentLoop.*": "the public handle: per-send overrides are keyword parameters with defaults",
    "loopwright.session_access.SessionAccess.*": "a part of the public handle: the same",
    "loopwright.config.*": "configuration is a list of named settings",
    "loopwright.tools.presets.create_default_tool_registry": "a registry is a list of named settings too",
    "loopwright.tools.decorator.tool": "each fact about a tool is a keyword parameter with a default",
    "loopwright.executors.subprocess.SubprocessExecutor.*": "configuration is a list of named settings",
    "loopwright.cli.*": "each option of a command is a parameter of its function",
}

# Module → why it may import inside a function. Only an optional driver in its own adapter, whose ImportError names the
# extra to install; and the package root, which resolves its public names on first use.
LATE_IMPORTS: dict[str, str] = {
    "loopwright": "public names are resolved on first use, so that importing the package does nothing else",
    "loopwright.ports": "the same, so that a process loads the seams that it uses",
    "loopwright.context": "the same, so that skills need no driver until they are used",
    "loopwright.tools": "the same, so that one tool's name does not load all built-in tools",
    "loopwright.connectors": "the same, so that the SDK of MCP is loaded by who speaks to a server",
    "loopwright.guardrails": "the same, so that one guardrail does not load all",
    "loopwright.workflow": "the same, so that reading a spec does not load what writes one",
    "loopwright.executors": "the same, so that leaves in this process load nothing of other processes",
    "loopwright.executors.leaf_worker": "the factory that makes the loop of a leaf is named by its job",
    "loopwright.late": "the one place where a module that a new process does not need at once is loaded at its first use",
    "loopwright.stores.dsn": "a store and its driver are loaded when a DSN names them",
    "loopwright.transports.service_factory": "a protocol and its HTTP client are loaded when a service is built",
    "loopwright.transports.tiktoken_counter": "tiktoken (extra tokens) is loaded in the thread that loads its encoder",
    "loopwright.tools.document_worker": "extras web and pdf, each in a process of its own that reads one document",
    "loopwright.tools.registry": "the schema validator takes longer to load than all of the kernel; the first call pays",
}


def test_no_module_has_a_name_that_says_nothing() -> None:
    assert [module.place for module in modules() if module.name.rsplit(".", 1)[-1] in MEANINGLESS] == []


def test_every_folder_is_a_package() -> None:
    """A folder without `__init__.py` is left out by type checkers and by the import linter."""
    assert sorted({path.parent for path in PACKAGE.rglob("*.py") if not (path.parent / "__init__.py").exists()}) == []


def test_no_two_modules_share_a_name() -> None:
    places: dict[str, list[str]] = defaultdict(list)
    for module in modules():
        word = module.name.rsplit(".", 1)[-1]
        if word != "__main__" and word not in SHARED_MODULE_NAMES:
            places[word].append(module.place)
    assert {word: found for word, found in places.items() if len(found) > 1} == {}


def test_no_two_classes_share_a_name() -> None:
    places: dict[str, list[str]] = defaultdict(list)
    for found in definitions():
        if isinstance(found.node, ast.ClassDef) and not found.in_function:
            places[found.node.name].append(str(found))
    assert {name: found for name, found in places.items() if len(found) > 1} == {}


def public_methods(node: ast.ClassDef) -> set[str]:
    return {
        child.name
        for child in node.body
        if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef) and not child.name.startswith("_")
    }


def test_no_class_has_more_than_12_public_methods() -> None:
    wide = [
        f"{found}: {len(public_methods(found.node))}"
        for found in definitions()
        if isinstance(found.node, ast.ClassDef)
        and len(public_methods(found.node)) > MAX_PUBLIC_METHODS
        and not matching(found.name, WIDE_CLASSES)
    ]
    assert wide == []


def parameters(node: Function) -> list[str]:
    """Names of all parameters; the receiver of a method does not count."""
    args = node.args
    named = [arg.arg for arg in [*args.posonlyargs, *args.args, *args.kwonlyargs, args.vararg, args.kwarg] if arg]
    return [name for name in named if name not in {"self", "cls"}]


def test_no_call_takes_more_than_7_parameters() -> None:
    wide = [
        f"{found}: {len(parameters(found.node))}"
        for found in definitions()
        if not isinstance(found.node, ast.ClassDef)
        and len(parameters(found.node)) > MAX_PARAMETERS
        and not matching(found.name, WIDE_CALLS)
    ]
    assert wide == []


def is_import(node: ast.AST) -> bool:
    if isinstance(node, ast.Call):
        return ast.unparse(node.func) in {"__import__", "import_module", "importlib.import_module"}
    return isinstance(node, ast.Import | ast.ImportFrom)


def late_imports() -> Iterator[tuple[str, str]]:
    """Module and place of each import that happens when a function runs."""
    for found in definitions():
        if isinstance(found.node, ast.ClassDef) or found.in_function:
            continue
        for node in ast.walk(found.node):
            if is_import(node):
                yield found.module.name, f"{found.module.place}:{getattr(node, 'lineno', 0)} {ast.unparse(node)}"


def test_no_import_hides_inside_a_function() -> None:
    assert [place for name, place in late_imports() if name not in LATE_IMPORTS] == []


def is_public(found: Definition) -> bool:
    words = found.name.split(".")
    return not found.in_function and not any(word.startswith("_") for word in words)


def test_everything_public_has_a_docstring() -> None:
    # An overload, a setter and an override keep the promise that is written at the implementation, getter or port.
    documented_elsewhere = {"overload", "setter", "deleter", "override"}
    bare = [module.place for module in modules() if module.text.strip() and not ast.get_docstring(module.tree)]
    bare += [
        str(found)
        for found in definitions()
        if is_public(found)
        and not decorators(found.node) & documented_elsewhere
        and not ast.get_docstring(found.node, clean=False)
    ]
    assert bare == []


def test_no_test_patches_anything() -> None:
    """The linter bans mock and sleep by name; the patching fixtures are arguments, which it cannot see."""
    fixtures = {"monkeypatch", "mocker"}
    patching = [
        f"{path.relative_to(ROOT)}:{node.lineno} {node.name}"
        for path in sorted((ROOT / "tests").rglob("*.py"))
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and fixtures & set(parameters(node))
    ]
    assert patching == []
