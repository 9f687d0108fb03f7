"""A table in one test runs whole, and a failure says in which row it was."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.rows import each_row

SEEN: list[int] = []


@each_row("number", [1, 2, 3])
def test_every_row_is_run_with_the_fixtures_of_the_test(monkeypatch: pytest.MonkeyPatch, number: int) -> None:
    monkeypatch.setitem(globals(), "SEEN", [*SEEN, number])
    assert list(range(1, number + 1)) == SEEN


@each_row("number", [1, 2, 3])
def test_every_row_has_a_folder_of_its_own(tmp_path: Path, number: int) -> None:
    assert list(tmp_path.iterdir()) == []
    (tmp_path / str(number)).touch()


@pytest.mark.parametrize("missing", ["assertion", "exception"])
def test_a_failure_names_its_row(missing: str) -> None:
    @each_row(("word", "length"), [("a", 1), ("bb", 3)], ids=["one", "two"])
    def check(word: str, length: int) -> None:
        if missing == "assertion":
            assert len(word) == length
        elif len(word) != length:
            with pytest.raises(ValueError, match="never"):
                pass

    with pytest.raises((AssertionError, pytest.fail.Exception)) as caught:
        check()
    assert caught.value.__notes__ == ["in row: two"]
