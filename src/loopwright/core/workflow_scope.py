"""Which names of a workflow may be referred to from where.

Owns: the places of nodes and the rule of visibility: a node sees what surely ended before it began. That is: earlier steps
of the sequences around it and all inside of them, but nothing inside of what repeats (its own id gives the result), nothing
beside it in a parallel, nothing in another case of a branch. Must not know: fields of nodes.
Read next: `workflow_check.py`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from ..model.spec_shape import nearest
from ..model.workflow_spec import RESERVED
from .workflow_templates import Path

Place: TypeAlias = tuple[tuple[int, int], ...]
"""The containers around something, from the outermost: number of the container, and which of its parts it stands in."""

REPEATING = ("foreach", "loop")
LEAVES = ("agent", "tool", "approve", "wait", "workflow")
_SHORTEST_TYPO = 4
_LISTED = 40


@dataclass
class Known:
    """One node that has an id."""

    number: int
    path: str
    place: Place
    gives_text: bool
    """True when its output is text and so has no keys."""


@dataclass
class Patience:
    """How many words may still be compared with unknown ones."""

    left: int = 2_000


@dataclass
class Scope:
    """The names of one workflow; a sub-workflow has its own."""

    outer: frozenset[str] = frozenset()
    """Names of the workflows around it, which it cannot see."""
    patience: Patience = field(default_factory=Patience)
    nodes: dict[str, Known] = field(default_factory=lambda: {})
    kinds: list[str] = field(default_factory=lambda: [])
    """The type of each node by its number."""
    names: list[str | None] = field(default_factory=lambda: [])
    """The id of each node by its number."""
    variables: dict[int, str] = field(default_factory=lambda: {})
    """The `as` of each foreach by its number."""
    judged: set[int] = field(default_factory=set[int])
    """Numbers of the loops that have a judge."""

    def fault(self, path: Path, here: Place, *, literal: bool) -> str | None:
        """Why what stands at `here` may not refer to this; None when it may.

        `literal`: an unknown name may be meant as it stands, as in a template, and is a fault only when it looks like a typo.
        """
        name = path[0]
        around = [number for number, _ in here]
        if name == "input" or name in (self.variables.get(number) for number in around):
            return None
        if name in RESERVED:
            return self._of_a_reserved(name, around)
        known = self.nodes.get(name)
        if known is not None:
            return self._hidden(name, known, here) or self._without_keys(known, path)
        owner = next((number for number, variable in self.variables.items() if variable == name), None)
        if owner is not None:
            return f'"{name}" is the item of foreach {self._called(owner)} and known in its body only'
        if name in self.outer:
            return f'"{name}" belongs to the workflow around this one; hand it in through "input"'
        return self._unknown(name, here, literal=literal)

    def _of_a_reserved(self, name: str, around: Sequence[int]) -> str | None:
        if name == "index":
            inside = any(self.kinds[number] in REPEATING for number in around)
            return None if inside else '"index" is known inside of a foreach or loop only'
        inside = any(number in self.judged for number in around)
        return None if inside else '"feedback" is known inside of a loop with a judge only'

    def _hidden(self, name: str, known: Known, here: Place) -> str | None:
        """Why a node cannot be seen from here; None when it can."""
        around = [number for number, _ in here]
        if known.number in around:
            # Inside of a loop its id gives the iteration before, inside of a fallback what failed.
            kind = self.kinds[known.number]
            if kind == "loop" or kind in LEAVES:
                return None
            return f'"{name}" is around this node and has no output yet'
        common = 0
        while common < min(len(here), len(known.place)) and here[common] == known.place[common]:
            common += 1
        for number, _ in known.place[common + 1 :]:
            if (why := self._closed(name, number)) is not None:
                return why
        if common == len(known.place):
            return f'"{name}" is this node itself'
        container, slot = known.place[common]
        if common < len(here):
            return self._beside(name, container, slot < here[common][1])
        return self._closed(name, container) or f'"{name}" is inside of this node and runs later'

    def _closed(self, name: str, container: int) -> str | None:
        """What is inside of this container is not seen from outside; None when it is."""
        kind = self.kinds[container]
        if kind in REPEATING:
            return f'"{name}" is inside of {kind} {self._called(container)}; refer to that for its output'
        if kind in LEAVES:
            return f'"{name}" is in the fallback of {self._called(container)}; refer to that for the output'
        return None

    def _beside(self, name: str, container: int, earlier: bool) -> str | None:
        match self.kinds[container]:
            case "sequence" | "loop":
                return None if earlier else f'"{name}" runs later than this node'
            case "branch":
                return f'"{name}" is in another case of the branch, so one of both does not run'
            case _:
                return f'"{name}" runs beside this node in the same parallel'

    def _without_keys(self, known: Known, path: Path) -> str | None:
        if len(path) > 1 and known.gives_text:
            return f'"{path[0]}" gives text, which has no "{".".join(path[1:])[:64]}"; give it an output_schema'
        return None

    def _unknown(self, name: str, here: Place, *, literal: bool) -> str | None:
        seen = [*self.nodes, *(self.variables[number] for number, _ in here if number in self.variables), "input"]
        near = None
        if self.patience.left > 0:
            # Comparing words takes time, and whoever writes thousands of unknown names wants to see it taken.
            self.patience.left -= len(seen)
            near = nearest(name, seen)
        if literal:
            return f'unknown "{name}"; did you mean "{near}"?' if near and len(near) >= _SHORTEST_TYPO else None
        if near:
            return f'unknown reference "{name}"; did you mean "{near}"?'
        visible = [one for one in seen[:_LISTED] if self.fault((one,), here, literal=True) is None]
        return f'unknown reference "{name}"; known here: {", ".join(sorted({*visible, "input"}))}'

    def _called(self, number: int) -> str:
        name = self.names[number]
        return f'"{name}"' if name else "around it"
