"""What changed between two texts, as a unified diff that stays fast on large files.

Owns: the diff that edit tools answer with. Must not know: files.
Read next: `patch.py` (the way back).
"""

from __future__ import annotations

from difflib import SequenceMatcher

CONTEXT_LINES = 3
MAX_DIFF_LINES = 400
"""Lines of a diff that a model is shown; it wrote the change itself."""
_MAX_COMPARED = 4_000


def unified_diff(before: str, after: str, path: str) -> str:
    """The change as a unified diff with three lines of context; "" when there is none; cut after 400 lines."""
    if before == after:
        return ""
    old, new = _lines(before), _lines(after)
    # Only the changed middle is compared: the rest is equal by construction and would cost quadratic time.
    start = _equal_head(old, new)
    tail = _equal_tail(old[start:], new[start:])
    first = max(start - CONTEXT_LINES, 0)
    old_middle = old[first : len(old) - max(tail - CONTEXT_LINES, 0)]
    new_middle = new[first : len(new) - max(tail - CONTEXT_LINES, 0)]
    out = [f"--- a/{path}", f"+++ b/{path}"]
    if max(len(old_middle), len(new_middle)) > _MAX_COMPARED:
        return "\n".join([*out, f"({len(old_middle)} lines became {len(new_middle)} from line {first + 1} on)"])
    matcher = SequenceMatcher(None, old_middle, new_middle, autojunk=False)
    for group in matcher.get_grouped_opcodes(CONTEXT_LINES):
        old_at, old_end, new_at, new_end = group[0][1], group[-1][2], group[0][3], group[-1][4]
        out.append(f"@@ -{_span(first + old_at, old_end - old_at)} +{_span(first + new_at, new_end - new_at)} @@")
        for tag, i1, i2, j1, j2 in group:
            if tag == "equal":
                out.extend(_marked(" ", old_middle[i1:i2]))
            else:
                out.extend(_marked("-", old_middle[i1:i2]))
                out.extend(_marked("+", new_middle[j1:j2]))
    if len(out) > MAX_DIFF_LINES:
        out = [*out[:MAX_DIFF_LINES], f"... {len(out) - MAX_DIFF_LINES} more lines of the diff"]
    return "\n".join(out)


def _lines(text: str) -> list[str]:
    """Lines with their ends; only `\\n` ends a line."""
    lines = text.split("\n")
    ended = [f"{line}\n" for line in lines[:-1]]
    return [*ended, lines[-1]] if lines[-1] else ended


def _marked(mark: str, lines: list[str]) -> list[str]:
    out: list[str] = []
    for line in lines:
        out.append(mark + line.removesuffix("\n"))
        if not line.endswith("\n"):
            out.append("\\ No newline at end of file")
    return out


def _span(start: int, length: int) -> str:
    return f"{start + 1 if length else start}" + ("" if length == 1 else f",{length}")


def _equal_head(old: list[str], new: list[str]) -> int:
    count = 0
    for left, right in zip(old, new, strict=False):
        if left != right:
            break
        count += 1
    return count


def _equal_tail(old: list[str], new: list[str]) -> int:
    return _equal_head(old[::-1], new[::-1])
