"""The command line: thin commands over the public handle, and the entry points of worker processes.

Owns: options, output, exit codes. Must not know: rules of runs and sessions. Only the command modules need typer and rich;
`demo.py` needs neither.
Read next: `main.py`, then `application.py`.
"""
