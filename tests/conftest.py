"""Settings of the whole suite."""

from __future__ import annotations

import os

from hypothesis import settings

# No test asserts a time. In CI the examples are the same in every run: a new counterexample is
# found by whoever runs the suite at home, not by whoever happens to land next.
settings.register_profile("home", deadline=None)
settings.register_profile("ci", deadline=None, derandomize=True)
settings.load_profile("ci" if os.environ.get("CI") else "home")
