"""The benchmark: Loopwright beside a loop that somebody would write by hand, in one run.

Run it with `./dev bench`; what the figures mean is in `docs/performance.md`.
"""
