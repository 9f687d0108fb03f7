"""A store as people have it: something of everything that the page shows."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import clew
from tests.exporters.rich import CLAUDE, claude_files, codex_file

MAIN: Final = CLAUDE
"""Edits, diffs, a subagent, pictures, thoughts, a compaction, a rewind."""
LANES: Final = "harbor-lanes"
"""Branches, checkpoints with files, usage."""


def fill(store: clew.Store, folder: Path) -> None:
    """Write it. `folder`: an empty one for files."""
    claude = folder / "import" / "projects" / "-home-ada-projects-harbor"
    claude_files(claude)
    for path in (claude, codex_file(folder / "import" / "codex")):
        report = store.import_path(path)
        assert report.ok, report
    work = folder / "harbor"
    (work / "src").mkdir(parents=True)
    lanes = store.create(
        LANES, title="Make the lanes of the harbor wider", tags=["starred", "harbor"],
        model="claude-sonnet-4-5", workspace=work, metadata={"agent": "own-agent"},
    )  # fmt: skip
    (work / "src" / "lanes.py").write_text("WIDTH = 3\n\n\ndef lanes():\n    return WIDTH\n")
    (work / "README.md").write_text("# Harbor\n")
    lanes.append({"role": "user", "content": "Make the lanes wider, please."})
    lanes.checkpoint("before", files=work)
    (work / "src" / "lanes.py").write_text("WIDTH = 4\n\n\ndef lanes():\n    return WIDTH\n")
    (work / "src" / "new.py").write_text("print('new')\n")
    entry = lanes.append({"role": "assistant", "content": "They are 4 wide now. See `src/lanes.py`."})[0]
    lanes.add_usage(model="claude-sonnet-4-5", input_tokens=1200, output_tokens=300, entry=entry)
    lanes.checkpoint("wider", files=work)
    lanes.append({"role": "user", "content": "Too wide. Go back."})
    lanes.rewind("before")
    (work / "README.md").unlink()
    lanes.append({"role": "user", "content": "Make them 5 wide."})
    lanes.append({"role": "assistant", "content": "**Done.**"})
    lanes.checkpoint("widest", files=work)
    fork = lanes.fork("harbor-fork")
    fork.update(title="Round ones")
    fork.append({"role": "user", "content": "And if they were round?"})
    failed = store.create("failed", title="Deploy", tags=["harbor"], workspace=work)
    failed.start({"prompt": "deploy"}, task="deploy")
    failed.append({"role": "user", "content": "Deploy it."})
    failed.fail("the harbor is closed")
    for number in range(30):
        one = store.create(f"small-{number}", title=f"Small thing {number}", tags=[f"tag-{number % 4}"])
        one.append({"role": "user", "content": f"Do the small thing {number} in the harbor."})
        one.add_usage(model="gpt-5", input_tokens=100 * number, output_tokens=10, cost="0.01")
