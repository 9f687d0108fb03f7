"""Trees of files, as a dictionary of their texts."""

from __future__ import annotations

from pathlib import Path

from clew.model.files import RestoreReport

THEN = {"edited": "one", "deleted": "still here", "folder/same": "same"}
NOW = {"edited": "two", "folder/same": "same", "created": "new", "more/created": "new too"}


def write(root: Path, files: dict[str, str]) -> None:
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)


def read(root: Path) -> dict[str, str]:
    return {str(path.relative_to(root)): path.read_text() for path in root.rglob("*") if path.is_file()}


def kept_by(report: RestoreReport | None) -> dict[str, str]:
    assert report is not None
    return {kept.path: kept.reason for kept in report.kept}
