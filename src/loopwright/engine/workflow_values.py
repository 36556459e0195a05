"""What names mean in a run: outputs of steps, read from the journal where they are, items, the run's input.

Owns: `RunValues`. Must not know: which step asks. A run keeps where outputs are, not the outputs; a few that were read last
are kept here, by size. Read next: `../core/workflow_templates.py`, `workflow_leaves.py`.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Sequence
from typing import Any, Final, cast

from ..core.workflow_frames import NOTHING, UNRUN, ForeachFrame, NodeEnd, Place, Results, RunScope
from ..core.workflow_state import WorkflowState
from ..core.workflow_templates import MISSING, Lookup, NoOutput, Path, lookup_in, path_of, value_at
from ..model.codec import decode, decode_record
from ..model.errors import StoreCorruptError
from ..model.family_errors import RenderedTooLargeError
from ..model.messages import content_text
from ..model.records import ToolFinished
from ..model.workflow_records import NodeDecided, StepFinished
from ..ports.store import StoredRecord
from .kernel import Kernel

KEPT_BYTES: Final = 4_000_000
"""Of outputs that were read and are kept, as they are stored."""

MOST_BYTES: Final = 16_000_000
"""Of all outputs that one reference may stand for, as they are stored."""

PAGE: Final = 500
"""Records read at once where many outputs are wanted."""


class Kept:
    """Values that were read last, by position; the longest unused go first."""

    def __init__(self, bound: int) -> None:
        self._bound = bound
        self._size = 0
        self._values: OrderedDict[object, tuple[Any, int]] = OrderedDict()

    def get(self, key: object) -> Any:
        """The value, or `MISSING`."""
        found = self._values.get(key)
        if found is None:
            return MISSING
        self._values.move_to_end(key)
        return found[0]

    def put(self, key: object, value: Any, size: int) -> None:
        """Keeps a value of so many bytes, unless it alone is too much."""
        if size > self._bound or key in self._values:
            return
        self._values[key] = value, size
        self._size += size
        while self._size > self._bound:
            _, (_, gone) = self._values.popitem(last=False)
            self._size -= gone


class RunValues:
    """Values of one run in this process. Concurrency: tasks of one event loop."""

    def __init__(self, kernel: Kernel, session_id: str, run: WorkflowState) -> None:
        self._kernel = kernel
        self._session_id = session_id
        self._run = run
        self._kept = Kept(KEPT_BYTES)

    async def lookup(self, references: Iterable[str | Path], scope: RunScope) -> Lookup:
        """A lookup that knows these references. Raises `RenderedTooLargeError` when their values are too much together."""
        values: dict[str, object] = {}
        for reference in references:
            path = path_of(reference) if isinstance(reference, str) else reference
            if path[0] not in values:
                value = await self.value(path[0], scope)
                if value is not MISSING:
                    values[path[0]] = value
        return lookup_in(values)

    async def at(self, reference: str, scope: RunScope) -> object:
        """What one reference means."""
        path = path_of(reference)
        value = await self.value(path[0], scope)
        return value if value is MISSING else value_at(value, path)

    async def value(self, name: str, scope: RunScope) -> object:
        """What a name means; `MISSING` for one that nobody knows."""
        if (loop := scope.loop(name)) is not None:
            return NoOutput(name, "first") if loop.newest is UNRUN else await self.output(name, loop.newest)
        if (ended := scope.find(name)) is not None:
            return await self.output(name, ended)
        if (found := scope.variable(name)) is not None:
            return await self.item(*found)
        match name:
            case "input":
                return self._run.started.input
            case "index":
                index = scope.iteration()
                return MISSING if index is None else index
            case "feedback":
                return await self._feedback(scope)
            case _:
                return NoOutput(name, "not_run") if name in self._run.ids else MISSING

    async def item(self, frame: ForeachFrame, index: int) -> object:
        """One item of a foreach."""
        items = await self.items(frame)
        return items[index] if index < len(items) else MISSING

    async def items(self, frame: ForeachFrame) -> Sequence[Any]:
        """What a foreach goes through. Raises `TypeError` with what it is when it is no list."""
        spec = frame.plan.spec
        if spec.items is not None:
            return cast("Sequence[Any]", spec.items)
        key = ("items", frame.path)
        known = self._kept.get(key)
        if known is not MISSING:
            return cast("Sequence[Any]", known)
        value = await self.at(spec.items_from, frame.scope)
        if isinstance(value, dict):
            value = cast("dict[str, object]", value).get("items")
        if not isinstance(value, list | tuple):
            shown = str(value) if isinstance(value, NoOutput) else type(value).__name__
            raise TypeError(f"items_from {spec.items_from!r} is no list: {shown}")
        given = cast("Sequence[Any]", value)
        self._kept.put(key, given, 100 * len(given))
        return given

    async def output(self, name: str, ended: NodeEnd) -> object:
        """What a node that ended gave."""
        if ended.outcome == "completed":
            return await self._placed(name, ended.place)
        return await self._none(name, ended.outcome, ended.place)

    async def error_at(self, position: int) -> str:
        """Why the step whose record is there failed."""
        value = await self._none("", "failed", position)
        return value.error

    async def _feedback(self, scope: RunScope) -> object:
        judged = scope.judged()
        if judged is None or judged.outcome != "completed":
            return ""
        verdict = await self._placed("judge", judged.place)
        return cast("dict[str, object]", verdict).get("reason", "") if isinstance(verdict, dict) else ""

    async def _none(self, name: str, outcome: str, place: Place) -> NoOutput:
        if outcome == "skipped":
            return NoOutput(name, "skipped")
        if not isinstance(place, int) or place == NOTHING:
            return NoOutput(name, "failed", "it was stopped")
        match await self._record(place):
            case StepFinished() as step:
                why = step.error_message or step.text or step.outcome
            case ToolFinished() as call:
                why = content_text(call.content)
            case NodeDecided(value={"error": str(error)}):
                why = error
            case _:
                why = ""
        return NoOutput(name, "failed", why)

    async def _placed(self, name: str, place: Place) -> object:
        if isinstance(place, Results):
            room = [MOST_BYTES]
            return {"items": await self._many(name, place, room)}
        if place == NOTHING:
            return NoOutput(name, "skipped")
        if (known := self._kept.get(place)) is not MISSING:
            return known
        row = await self._row(place)
        value = await self.of(decode_record(row.kind, row.version, row.body))
        self._kept.put(place, value, len(row.body))
        return value

    async def _many(self, name: str, results: Results, room: list[int]) -> list[object]:
        """The outputs of all parts, read in pages."""
        out: list[object] = []
        rows: dict[int, StoredRecord] = {}
        wanted = sorted({one for one in results.places if isinstance(one, int) and one != NOTHING})
        for first in range(0, len(wanted), PAGE):
            rows |= await self._rows(wanted[first : first + PAGE], room)
        for index, place in enumerate(results.places):
            outcome = results.outcome(index)
            if isinstance(place, Results):
                out.append({"items": await self._many(name, place, room)})
            elif place == NOTHING or outcome != "completed":
                out.append(await self._none(f"{name}[{index}]", outcome or "cancelled", place))
            else:
                row = rows[place]
                out.append(await self.of(decode_record(row.kind, row.version, row.body)))
        return out

    async def _rows(self, wanted: Sequence[int], room: list[int]) -> dict[int, StoredRecord]:
        """The records at these positions, which are in order; those between them are read and dropped."""
        found: dict[int, StoredRecord] = {}
        after = wanted[0]
        places = set(wanted)
        while after <= wanted[-1]:
            page = await self._kernel.store.read(self._session_id, after=after, limit=PAGE)
            for row in page:
                if row.position in places:
                    found[row.position] = row
                    room[0] -= len(row.body)
            if room[0] < 0:
                raise RenderedTooLargeError(MOST_BYTES)
            if not page:
                break
            after = page[-1].position + 1
        return found

    async def _row(self, position: int) -> StoredRecord:
        rows = await self._kernel.store.read(self._session_id, after=position, limit=1)
        return rows[0]

    async def _record(self, position: int) -> object:
        row = await self._row(position)
        return decode_record(row.kind, row.version, row.body)

    async def of(self, record: object) -> object:
        """The output that a record holds."""
        match record:
            case StepFinished():
                if record.artifact_id is not None:
                    return await self._stored(record.artifact_id)
                return record.text if record.data is None else record.data
            case ToolFinished():
                if record.data is not None:
                    return record.data
                text = content_text(record.content)
                if record.artifact_id is not None:
                    text = str(await self._stored(record.artifact_id))
                return _json_or_text(text)
            case _:
                return ""

    async def _stored(self, artifact_id: str) -> object:
        """An output that is no part of a record, whole. Raises `RenderedTooLargeError` when it is too much."""
        store = self._kernel.store
        found = await store.artifact(artifact_id)
        if found is None:
            return ""
        if found.size > MOST_BYTES:
            raise RenderedTooLargeError(MOST_BYTES)
        body = await store.read_artifact(artifact_id, offset=0, limit=found.size)
        return decode(body, object) if found.media_type == "application/json" else body.decode("utf-8", "replace")


def _json_or_text(text: str) -> object:
    """What a tool's text says: an object or list where it is the JSON of one, else the text."""
    if not text.startswith(("{", "[")):
        return text
    try:
        return decode(text.encode("utf-8", "surrogatepass"), object)
    except StoreCorruptError:
        return text
