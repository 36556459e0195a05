"""What stands around the window: representations, folds, memory, skills. Loaded by loops that use them.

Owns: implementers of the ports that shape what a model sees. Must not know: the engine, stores, each other's neighbours.
Read next: `projected.py`, `summary_fold.py`.
"""
