"""An install with --project stays inside the project, whatever links a cloned repository holds."""

from __future__ import annotations

import itertools
import os
from pathlib import Path

import pytest

from clew.errors import InvalidError
from clew.server.mcp.install.clients import CLIENTS, Client
from clew.server.mcp.install.install import install, remove, status
from clew.server.mcp.install.program import Wish
from tests.server.mcp.install.homes import for_each
from tests.support.rows import each_row

EVERY = for_each()
OURS = '{"mcpServers": {"clew": {"command": "clew", "args": ["mcp"]}}}\n'


def _project(place: Path) -> Path:
    project = place / "project"
    project.mkdir(parents=True)
    return project


def _all(place: Path) -> dict[str, bytes | str | None]:
    """Everything below a directory, with where links lead."""
    return {
        str(path): os.readlink(path)
        if path.is_symlink()
        else path.read_bytes()
        if path.is_file()
        else str(path.stat().st_mode)
        for path in sorted(place.rglob("*"))
    }


def _refused(client: Client, project: Path, link: Path, target: Path) -> None:
    """Install, remove and status name the link and where it leads; nothing is changed anywhere."""
    before = _all(project.parent)
    for act in (install_in, remove_from):
        with pytest.raises(InvalidError) as error:
            act(client, project)
        assert f"{link} is a link that leads out of the project, to {target}" in str(error.value)
    assert _all(project.parent) == before


def install_in(client: Client, project: Path) -> None:
    install(client, Wish(), project=project)


def remove_from(client: Client, project: Path) -> None:
    remove(client, project=project)


@EVERY
@each_row("content", [None, "", OURS])
def test_settings_that_are_a_link_out_of_the_project_are_refused(
    client: Client, content: str | None, home: Path, tmp_path: Path
) -> None:
    project, target = _project(tmp_path / str(content)[:4]), home / f"profile{len(content or '')}"
    if content is not None:
        target.write_text(content)
    link = client.path(project)
    link.parent.mkdir(parents=True, exist_ok=True)
    link.symlink_to(target)
    before = target.read_bytes() if content is not None else None
    _refused(client, project, link, target)
    assert (target.read_bytes() if target.exists() else None) == before
    found = status(client, project=project)
    assert found.state == "unreadable"
    assert "leads out of the project" in found.notes[0]


@EVERY
def test_a_directory_that_is_a_link_out_of_the_project_is_refused(
    client: Client, home: Path, tmp_path: Path
) -> None:
    project = _project(tmp_path)
    target = home / "elsewhere"
    target.mkdir()
    link = project / client.skills.partition("/")[0]
    link.symlink_to(os.path.relpath(target, project))
    _refused(client, project, link, target)
    assert list(target.iterdir()) == []


@EVERY
def test_a_link_deeper_in_the_way_is_refused(client: Client, home: Path, tmp_path: Path) -> None:
    project = _project(tmp_path)
    target = home / "elsewhere"
    target.mkdir()
    link = project / client.skills
    link.parent.mkdir(parents=True)
    (project / "way").symlink_to(target)
    link.symlink_to("../way")
    _refused(client, project, link, target)


def test_a_link_that_stays_inside_the_project_is_followed(home: Path, tmp_path: Path) -> None:
    project = _project(tmp_path)
    (project / ".agents" / "skills").mkdir(parents=True)
    (project / ".claude").mkdir()
    (project / ".claude" / "skills").symlink_to("../.agents/skills")
    (project / "shared.json").write_text("{}\n")
    (project / ".mcp.json").symlink_to("shared.json")
    client = CLIENTS["claude-code"]
    install(client, Wish(), project=project)
    assert status(client, project=project).skill
    assert (project / ".agents" / "skills" / "clew" / "SKILL.md").is_file()
    assert (project / ".mcp.json").is_symlink()
    assert "clew" in (project / "shared.json").read_text()
    assert remove(client, project=project).is_restored
    assert (project / "shared.json").read_text() == "{}\n"


@each_row("call", ["fsync", "replace", "open", "mkdir", "unlink"])
def test_a_directory_that_becomes_a_link_meanwhile_is_not_followed(
    call: str, home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At every call of its kind the directory is swapped for a link; nothing comes to where it leads."""
    client = CLIENTS["vscode"]
    real = getattr(os, call)
    for number in itertools.count(1):
        place = tmp_path / f"{call}{number}"
        project, outside = _project(place), place / "outside"
        outside.mkdir()
        (outside / "mcp.json").write_text(OURS)
        (project / ".vscode").mkdir()
        (project / ".vscode" / "mcp.json").write_text("{}\n")
        count = 0

        def swapped(*args: object, **options: object) -> object:
            nonlocal count
            count += 1
            if count == number:  # noqa: B023
                os.rename(project / ".vscode", project / "before")  # noqa: B023
                (project / ".vscode").symlink_to(outside)  # noqa: B023
            return real(*args, **options)

        with monkeypatch.context() as patch:
            patch.setattr(os, call, swapped)
            try:
                install(client, Wish(), project=project)
            except InvalidError:
                pass
        assert [path.name for path in outside.iterdir()] == ["mcp.json"], number
        assert (outside / "mcp.json").read_text() == OURS, number
        if count < number:
            assert number > 1
            break
