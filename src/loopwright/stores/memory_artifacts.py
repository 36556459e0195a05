"""Large data in memory, beside the sessions that it belongs to.

Owns: the artifacts of `SharedData`. Must not know: records.
Read next: `ports/artifact.py`.
"""

from __future__ import annotations

import time

from ..ports.artifact import Artifact
from .derived import artifact_name
from .memory_data import SharedData


class MemoryArtifacts:
    """Calls on shared data."""

    def __init__(self, data: SharedData) -> None:
        self._data = data

    def put_artifact(self, session_id: str, data: bytes, media_type: str, digest: str) -> Artifact:
        """See `ArtifactStore.put_artifact`."""
        self._data.session(session_id)
        artifact_id = artifact_name(session_id, digest)
        new = Artifact(artifact_id, session_id, media_type, len(data), digest)
        self._data.artifact_times[artifact_id] = time.time()
        return self._data.artifacts.setdefault(artifact_id, (new, data))[0]

    def read_artifact(self, artifact_id: str, offset: int, limit: int | None) -> bytes:
        """See `ArtifactStore.read_artifact`; b"" when there is no such artifact."""
        known = self._data.artifacts.get(artifact_id)
        return known[1][offset : None if limit is None else offset + limit] if known else b""

    def artifact(self, artifact_id: str) -> Artifact | None:
        """See `ArtifactStore.artifact`."""
        known = self._data.artifacts.get(artifact_id)
        return known[0] if known else None
