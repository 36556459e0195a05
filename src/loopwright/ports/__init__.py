"""Seams: one Protocol a file, frozen values in and out, with the promise written on it.

Owns: what an implementer must keep. Must not know: any implementer.
Read next: `store.py`, `llm.py`, `tool.py`, `hook.py`.
"""
