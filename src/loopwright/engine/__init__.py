"""The doing: everything that awaits an effect.

Owns: running sends over a store, a model and tools. Must not know: which store, which model, which tools.
Read next: `run.py`, the loop itself.
"""
