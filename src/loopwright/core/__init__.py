"""The rules: pure functions over records. No await, no clock, no randomness, no I/O, no logging.

Owns: what a journal means and what happens next. Must not know: how anything is done.
Read next: `state.py`, then `decide.py`.
"""
