"""The public face is a decision: every public signature and error code is in `public_api.txt`, compared here.

`./dev api` rewrites that file. A new line is a decision, a changed or removed one of the tier `stable` a major version.
"""

from __future__ import annotations

import difflib
import importlib
import sys
from pathlib import Path

import pytest
from tests.architecture.public_surface import public_lines
from tests.architecture.source_tree import modules

SNAPSHOT = Path(__file__).with_name("public_api.txt")

# Namespace → tier of what it exports. `stable`: changes with a major version only. `provisional`: may change with a minor
# version, with a line in the changelog. Whatever is not listed in the snapshot is internal.
NAMESPACES = {
    "loopwright": "stable",
    "loopwright.context": "provisional",
    "loopwright.goals": "provisional",
    "loopwright.connectors": "provisional",
    "loopwright.guardrails": "provisional",
    "loopwright.ports": "provisional",
    "loopwright.sinks": "provisional",
    "loopwright.testing": "provisional",
    "loopwright.tools": "provisional",
    "loopwright.workflow": "provisional",
}

# Dotted public name → tier, where it differs from its namespace; it covers the members of a class too.
OTHER_TIERS: dict[str, str] = {}

HEADER = """\
# Every public name, its tier and its signature, and every error code. Written by `./dev api`, compared by test_public_api.py.
# stable: changes with a major version only. provisional: may change with a minor version. Anything else is internal.
"""


def present() -> list[str]:
    """The public namespaces that the package has."""
    names = {module.name for module in modules()}
    return [name for name in NAMESPACES if name in names]


def tier_of(name: str, namespace: str) -> str:
    for public, tier in OTHER_TIERS.items():
        if name == public or name.startswith(f"{public}."):
            return tier
    return NAMESPACES[namespace]


def error_classes() -> list[type[Exception]]:
    """The error tree, root first."""
    modules = [
        importlib.import_module(f"loopwright.model.{name}")
        for name in ("errors", "call_errors", "archive_errors", "family_errors", "web_errors", "connection_errors")
    ]
    names = {module.__name__ for module in modules}
    found: list[type[Exception]] = [modules[0].LoopwrightError]
    for cls in found:
        found.extend(child for child in cls.__subclasses__() if child.__module__ in names)
    return found


def code_of(error: type[Exception]) -> str:
    return str(vars(error).get("code", "no code of its own"))


def snapshot() -> str:
    lines = [
        f"{name}  [{tier_of(name, namespace)}]  {signature}"
        for namespace in present()
        for name, signature in public_lines(namespace)
    ]
    errors = [f"error {cls.__name__}({cls.__bases__[0].__name__})  [stable]  {code_of(cls)}" for cls in error_classes()]
    return HEADER + "".join(f"{line}\n" for line in [*sorted(set(lines)), *sorted(errors)])


@pytest.mark.parametrize("namespace", present())
def test_a_public_namespace_lists_its_names_once_and_they_all_exist(namespace: str) -> None:
    module = importlib.import_module(namespace)
    exported = getattr(module, "__all__", None)
    assert exported is not None, f"{namespace} is public and has no __all__"
    assert len(exported) == len(set(exported))
    assert [name for name in exported if not hasattr(module, name)] == []


def test_the_package_root_stays_small() -> None:
    assert len(importlib.import_module("loopwright").__all__) <= 60


def test_the_public_api_is_the_committed_one() -> None:
    committed = SNAPSHOT.read_text(encoding="utf-8").splitlines() if SNAPSHOT.exists() else []
    now = snapshot().splitlines()
    difference = "\n".join(difflib.unified_diff(committed, now, "committed", "now", lineterm="", n=0))
    if difference:
        pytest.fail(f"the public API changed; if that is meant: ./dev api\n{difference}", pytrace=False)


def test_every_error_has_a_code_of_its_own() -> None:
    codes = [code_of(cls) for cls in error_classes()]
    assert [cls.__name__ for cls, code in zip(error_classes(), codes, strict=True) if "code" not in vars(cls)] == []
    assert sorted(codes) == sorted(set(codes))


def test_the_error_tree_has_at_most_three_levels() -> None:
    root = error_classes()[0]
    deep = [cls.__name__ for cls in error_classes() if len([up for up in cls.__mro__ if issubclass(up, root)]) > 3]
    # Both kinds of spec are known by these names and caught together by that of their parent.
    assert deep == ["AgentSpecError", "WorkflowSpecError"]


if __name__ == "__main__":
    SNAPSHOT.write_text(snapshot(), encoding="utf-8")
    print(f"wrote {SNAPSHOT.name}: {len(snapshot().splitlines()) - 2} lines", file=sys.stderr)
