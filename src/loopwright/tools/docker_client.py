"""Program that runs a client of a container engine and ends the container with it, however it ends.

Owns: the container's name and its end. Must not know: anything of this package; it is started by path, with `python -I -S`, and
gets the engine's program, the name of the container and the client's whole command.
The engine's client does not pass SIGKILL on, so a process outside of the group waits until this one is gone.
Read next: `docker_shell.py`.
"""

from __future__ import annotations

import os
import select
import subprocess
import sys

KILL_S = 20.0
AGAIN_S = 2.0


def main() -> int:
    """The exit code of the client."""
    program, name, *command = sys.argv[1:]
    ended, alive = os.pipe()
    if os.fork() == 0:
        os.close(alive)
        _watch(ended, program, name)
    os.close(ended)
    # The writing end stays open here and nowhere else: the client does not inherit it.
    return subprocess.run(command, check=False).returncode


def _watch(ended: int, program: str, name: str) -> None:
    os.setsid()
    nowhere = os.open(os.devnull, os.O_RDWR)
    for number in (0, 1, 2):
        os.dup2(nowhere, number)
    try:
        os.read(ended, 1)
        # Twice, since the engine may still be making it. `--rm` has done it when the command ended by itself.
        for pause_s in (0.0, AGAIN_S):
            select.select([], [], [], pause_s)
            subprocess.run([program, "rm", "--force", name], timeout=KILL_S, check=False)
    finally:
        os._exit(0)


if __name__ == "__main__":
    code = main()
    sys.exit(code if code >= 0 else 128 - code)
