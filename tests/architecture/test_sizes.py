"""Files and functions stay small enough to be read in one go."""

from __future__ import annotations

import ast

from tests.architecture.source_tree import Definition, definitions, modules

MAX_FILE_LINES = 500
MAX_BODY_LINES = 60

# path or dotted name of a function → (allowed lines, why splitting it would make it harder to read)
ALLOWED_FILES: dict[str, tuple[int, str]] = {}
ALLOWED_BODIES: dict[str, tuple[int, str]] = {}


def body_lines(found: Definition) -> int:
    """Lines from the first statement after the docstring to the last, comments and blank lines included."""
    body = found.node.body
    first = body[0]
    if isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant) and isinstance(first.value.value, str):
        body = body[1:]
    return (body[-1].end_lineno or 0) - body[0].lineno + 1 if body else 0


def file_sizes() -> dict[str, int]:
    return {module.place: len(module.text.splitlines()) for module in modules()}


def function_sizes() -> dict[str, int]:
    return {found.name: body_lines(found) for found in definitions() if not isinstance(found.node, ast.ClassDef)}


def too_long(sizes: dict[str, int], limit: int, allowed: dict[str, tuple[int, str]]) -> list[str]:
    return [
        f"{name}: {size} lines, limit {allowed.get(name, (limit, ''))[0]}"
        for name, size in sizes.items()
        if size > allowed.get(name, (limit, ""))[0]
    ]


def no_longer_needed(sizes: dict[str, int], limit: int, allowed: dict[str, tuple[int, str]]) -> list[str]:
    return [name for name in allowed if sizes.get(name, 0) <= limit]


def test_no_file_is_longer_than_500_lines() -> None:
    assert too_long(file_sizes(), MAX_FILE_LINES, ALLOWED_FILES) == []


def test_no_function_body_is_longer_than_60_lines() -> None:
    assert too_long(function_sizes(), MAX_BODY_LINES, ALLOWED_BODIES) == []


def test_every_size_exception_is_still_needed_and_has_a_reason() -> None:
    assert no_longer_needed(file_sizes(), MAX_FILE_LINES, ALLOWED_FILES) == []
    assert no_longer_needed(function_sizes(), MAX_BODY_LINES, ALLOWED_BODIES) == []
    assert all(reason for _, reason in [*ALLOWED_FILES.values(), *ALLOWED_BODIES.values()])
