"""Settings of Hypothesis for every test, and the place of their temporary files.

`pytest --hypothesis-profile=thorough` looks ten times as hard. With `CI` in the environment the
examples are the same on every run, so that a red build is red for its own change.
"""

from __future__ import annotations

import atexit
import os
import shutil
import tempfile

from hypothesis import settings

from tests.support.effort import keep_compiled_code, use_memory_for_temporary_files

pytest_plugins = ["tests.backends.postgres.servers.cluster"]  # one server and one schema for all folders

keep_compiled_code()
use_memory_for_temporary_files()

# The key and the settings of the user who runs the tests are none of theirs.
os.environ["CLEW_STATE_DIR"] = tempfile.mkdtemp(prefix="clew-state-")
atexit.register(shutil.rmtree, os.environ["CLEW_STATE_DIR"], ignore_errors=True)
os.environ["CLEW_CONFIG"] = os.path.join(os.environ["CLEW_STATE_DIR"], "config.toml")

# No deadline per example: a shared machine pauses when it likes, and pytest-timeout stops a hang.
settings.register_profile("clew", deadline=None, print_blob=True, derandomize="CI" in os.environ)
settings.register_profile("thorough", settings.get_profile("clew"), max_examples=1000, derandomize=False)
settings.load_profile("clew")
