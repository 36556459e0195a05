"""Stands in for the command line of Docker where there is no engine: keeps its arguments, runs the command here, and "removes" it.

It knows the options that `DockerShellBackend` gives and nothing of containers: what it shows is how the client is called,
fed and ended, and not that a container holds.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

HERE = Path(sys.argv[0]).parent


def main() -> None:
    words = sys.argv[1:]
    with (HERE / "calls").open("a") as calls:
        calls.write(json.dumps(words) + "\n")
    if words[0] == "version":
        sys.stdout.write("27.0\n")
    elif words[0] == "rm":
        pid = HERE / words[-1]
        if pid.exists():
            os.killpg(int(pid.read_text()), signal.SIGKILL)
            pid.unlink()
    else:
        image = words.index("--entrypoint") + 2
        env = dict(words[at + 1].split("=", 1) for at, word in enumerate(words) if word == "--env")
        # As in a container, what runs is no child of the client's group.
        process = subprocess.Popen(
            ["sh", *words[image + 1 :]],
            cwd=words[words.index("--workdir") + 1],
            env={"PATH": os.environ["PATH"], **env},
            start_new_session=True,
        )
        name = HERE / words[words.index("--name") + 1]
        name.write_text(str(process.pid))
        code = process.wait()
        name.unlink(missing_ok=True)
        sys.exit(code if code >= 0 else 128 - code)


main()
