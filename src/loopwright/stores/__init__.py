"""Stores: where sessions live.

Owns: the implementers of `ports.store.SessionStore` and the choice between them by DSN.
Must not know: the run loop, models, tools.
Read next: `memory.py` (the model of correctness), `sqlite.py`, `dsn.py`.
"""
