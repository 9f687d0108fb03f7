"""What hooks leave for the watcher: read with distrust."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from clew.importers import wake
from clew.importers.wake import Wake, is_turn_end, listeners, listening, read_wakes, wake_directory
from tests.support.rows import each_row


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    runtime = tmp_path / "runtime"
    runtime.mkdir(0o700)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(runtime))
    monkeypatch.delenv("XDG_STATE_HOME", raising=False)
    monkeypatch.delenv("CLAUDE_CONFIG_DIR", raising=False)
    return tmp_path


def _text(transcript: str | Path = "", event: str = "Stop", **more: object) -> str:
    said = {"session_id": "s1", "transcript_path": str(transcript), "cwd": "/work", "hook_event_name": event}
    return "".join(f"{json.dumps(key)}:{json.dumps(value)}\n" for key, value in (said | more).items())


def _one(place: Path, text: str | bytes, name: str = "claude-code.1") -> Wake:
    (place / name).write_bytes(text.encode() if isinstance(text, str) else text)
    [found] = read_wakes(place)
    return found


def test_a_wake_says_which_session_and_its_file_is_gone(home: Path) -> None:
    file = home / ".claude" / "projects" / "-work" / "s1.jsonl"
    with listening() as place:
        found = _one(place, _text(file, files=True))
        assert found == Wake("claude-code", "Stop", "s1", os.path.realpath(file), "/work", files=True)
        assert is_turn_end(found)
        assert list(place.iterdir()) == []
        assert read_wakes(place) == []


def test_wakes_come_in_the_order_of_their_times_and_each_once(home: Path) -> None:
    with listening() as place:
        for number, event in enumerate(["SessionStart", "Stop", "SessionStart", "SessionEnd"]):
            file = place / f"codex.{100 - number}"
            file.write_text(_text(event=event))
            os.utime(file, ns=(number, number))
        assert [one.event for one in read_wakes(place)] == ["Stop", "SessionStart", "SessionEnd"]


def test_the_place_is_private_and_goes_with_its_watcher() -> None:
    base = wake_directory()
    with listening() as place:
        assert place.parent == base
        assert place.stat().st_mode & 0o777 == base.stat().st_mode & 0o777 == 0o700
        assert listeners() == [os.getpid()]
        (place / ".half").write_text("x")
    assert not base.exists()
    assert listeners() == []


def test_a_watcher_with_another_environment_is_found(home: Path) -> None:
    with listening(home / ".local" / "state" / "clew" / "wake"):
        assert listeners() == [os.getpid()]
        assert listeners(wake_directory()) == []


def test_two_watchers_have_a_place_each() -> None:
    with listening() as one:
        with listening() as other:
            assert one != other
        assert one.is_dir()
        assert not other.exists()


def test_what_a_killed_watcher_left_is_removed() -> None:
    old = wake_directory() / "4194305.0123456789"  # no system has so many processes
    old.mkdir(0o700, parents=True)
    wake_directory().chmod(0o700)
    (old / "codex.1").write_text(_text())
    assert listeners() == []
    with listening():
        assert not old.exists()


@pytest.mark.parametrize("mode", [0o777, 0o750])
def test_a_directory_that_others_may_enter_is_refused(mode: int) -> None:
    wake_directory().mkdir(parents=True)
    wake_directory().chmod(mode)
    with pytest.raises(PermissionError), listening():
        pass


def test_without_a_runtime_directory_of_our_own_the_state_directory_serves(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    usual = home / ".local" / "state" / "clew" / "wake"
    (home / "runtime").chmod(0o777)
    assert wake_directory() == usual
    monkeypatch.setenv("XDG_RUNTIME_DIR", "relative")
    assert wake_directory() == usual
    monkeypatch.setenv("XDG_STATE_HOME", str(home / "state"))
    assert wake_directory() == home / "state" / "clew" / "wake"


@each_row("name", ["unknown.1", "codex", "codex.x", "codex.1.tmp", ".codex.1", "codex.1\n", "codex.1.2"])
def test_s59_other_names_are_no_wakes(name: str) -> None:
    with listening() as place:
        (place / name).write_text(_text())
        assert read_wakes(place) == []
        assert (place / name).exists()


def test_s59_pipes_links_directories_and_large_files_are_passed_over(home: Path) -> None:
    target = home / "target"
    target.write_text(_text())
    with listening() as place:
        os.mkfifo(place / "codex.1")
        (place / "codex.2").symlink_to(target)
        (place / "codex.3").mkdir()
        (place / "codex.4").write_text(_text() + " " * wake.LARGEST)
        assert read_wakes(place) == []
        assert [one.name for one in place.iterdir()] == ["codex.3"]
        (place / "codex.3").rmdir()
    assert target.read_text() == _text()


def test_s59_a_flood_is_read_piece_by_piece(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wake, "MOST", 3)
    with listening() as place:
        for number in range(5):
            (place / f"pi.{number}").write_text(_text(session_id=f"s{number}"))
        assert [len(read_wakes(place)) for _ in range(3)] == [3, 2, 0]


def test_s59_a_transcript_elsewhere_is_not_named(home: Path) -> None:
    projects = home / ".claude" / "projects"
    projects.mkdir(parents=True)
    secret = home / "secret.jsonl"
    secret.write_text("{}")
    (projects / "link.jsonl").symlink_to(secret)
    outside: list[str | Path] = [
        secret,
        projects / ".." / ".." / "secret.jsonl",
        projects / "link.jsonl",
        "projects/x.jsonl",
        f"{projects}-other/x.jsonl",
        f"{projects}/a\nb.jsonl",
        f"{projects}/a\x1b[31m.jsonl",
        f"{projects}/a\0b.jsonl",
        f"{projects}/{'x' * 5000}",
        home / ".codex" / "sessions" / "rollout-1.jsonl",
    ]
    with listening() as place:
        for path in outside:
            found = _one(place, _text(path))
            assert (found.session, found.transcript) == ("s1", None), path


def test_s59_values_that_are_no_names_are_left_out() -> None:
    with listening() as place:
        for cwd in ("relative", "/a\nb", "/a\x9bm", "/" + "x" * 5000, 7, None, "/\ud800"):
            assert _one(place, _text(cwd=cwd)).cwd is None, cwd
        for session in ("", "x" * 300, "a\rb", ["s"], {"a": 1}):
            assert _one(place, _text(session_id=session)).session is None, session
        for event in ("", "a\nb", None, 3):
            (place / "codex.1").write_text(_text(event=event))  # type: ignore[arg-type]
            assert read_wakes(place) == []


def test_the_first_value_of_a_key_holds_and_lines_of_no_use_are_passed_over() -> None:
    text = b'{"session_id":"s1"\n\xff\xfe\n,"cwd" : "/work"\n,"session_id":"evil"\n"cwd":"/evil"\n'
    text += b'"hook_event_name":"Stop"\n"transcript_path":"cut off'
    with listening() as place:
        assert _one(place, text) == Wake("claude-code", "Stop", "s1", None, "/work", files=False)


def test_known_places_can_be_given(home: Path) -> None:
    file = home / "elsewhere" / "s.jsonl"
    with listening() as place:
        (place / "pi.1").write_text(_text(file))
        [found] = read_wakes(place, {"pi": [home / "elsewhere"]})
        assert found.transcript == os.path.realpath(file)


def test_events_in_the_middle_of_a_turn_are_no_ends() -> None:
    def wake_of(event: str) -> Wake:
        return Wake("pi", event, None, None, None, files=False)

    ends = (
        "Stop",
        "StopFailure",
        "AfterAgent",
        "session.idle",
        "agent_end",
        "SessionEnd",
        "session_shutdown",
    )
    assert all(is_turn_end(wake_of(event)) for event in ends)
    others = ("SubagentStop", "SessionStart", "PreCompact", "turn_end", "session.compacted", "SomethingNew")
    assert not any(is_turn_end(wake_of(event)) for event in others)


def test_no_directory_no_wakes(home: Path) -> None:
    assert read_wakes(home / "nothing") == []
    (home / "file").write_text("")
    assert read_wakes(home / "file") == []
