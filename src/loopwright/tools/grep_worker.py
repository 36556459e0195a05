"""The search for machines without ripgrep, as a program of its own.

Owns: searching the files below its current folder, one JSON line a match. Must not know: the rest of the package; it is run by
its path, in an interpreter without site, and uses the standard library only.
A process and not a thread: a regular expression that explodes holds the interpreter lock and would stop the whole event loop;
a process can be killed.
Read next: `grep.py`.
"""

from __future__ import annotations

import json
import os
import re
import stat
import sys
from collections.abc import Iterator
from typing import Any

_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


def main(job: dict[str, Any]) -> None:
    """Searches as `job` says and writes the matches to standard output."""
    pattern = re.escape(job["pattern"]) if job["literal"] else job["pattern"]
    try:
        expression = re.compile(pattern, 0 if job["case_sensitive"] else re.IGNORECASE)
    except (re.error, OverflowError, RecursionError) as error:
        _say({"error": str(error)})
        return
    here = os.open(".", _FOLDER)
    names = [job["file"]] if job["file"] else None
    for path, data in _files(here, "", job, names):
        for number, line in enumerate(_lines(data), 1):
            text = line.decode("utf-8", "replace").removesuffix("\r")
            if expression.search(text):
                _say({"path": path, "line": number, "text": text[: job["max_text"]]})


def _say(value: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps(value) + "\n")
    sys.stdout.flush()


def _lines(data: bytes) -> list[bytes]:
    lines = data.split(b"\n")
    return lines if lines[-1] else lines[:-1]


def _files(folder: int, prefix: str, job: dict[str, Any], names: list[str] | None) -> Iterator[tuple[str, bytes]]:
    """Text files in the order of their paths, links never followed."""
    for name in names or sorted(os.listdir(folder), key=os.fsencode):
        if names is None and (name in job["excluded"] or (name.startswith(".") and not job["include_hidden"])):
            continue
        try:
            mode = os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode
            if stat.S_ISDIR(mode):
                below = os.open(name, _FOLDER, dir_fd=folder)
                try:
                    yield from _files(below, f"{prefix}{name}/", job, None)
                finally:
                    os.close(below)
            elif stat.S_ISREG(mode) and name.endswith(job["suffix"]):
                data = _read(folder, name, job["max_bytes"])
                if data is not None:
                    yield prefix + name, data
        except OSError:
            continue  # gone, unreadable, or a link by now


def _read(folder: int, name: str, max_bytes: int) -> bytes | None:
    """A text file's bytes; None for what is too large, binary, or no file by now."""
    handle = os.open(name, _FILE, dir_fd=folder)
    with os.fdopen(handle, "rb") as file:
        status = os.fstat(file.fileno())
        if not stat.S_ISREG(status.st_mode) or status.st_size > max_bytes:
            return None
        data = file.read()
    return None if b"\0" in data else data


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
