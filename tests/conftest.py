"""Hypothesis profiles: `ci` (default) tries the same examples every time, `dev` looks for new ones, longer.

pytest_plugins = ["tests.quick_files", "tests.servers.plugin", "tests.sandboxes", "tests.npm_servers"]
"""

from __future__ import annotations

import os

from hypothesis import HealthCheck, settings

pytest_plugins = ["tests.quick_files", "tests.servers.plugin", "tests.sandboxes", "tests.npm_servers"]

settings.register_profile(
    "ci", derandomize=True, deadline=None, print_blob=True, suppress_health_check=[HealthCheck.too_slow]
)
settings.register_profile("dev", deadline=None, max_examples=1000, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "ci"))
