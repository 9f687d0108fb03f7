"""What is served is what the sources say, small, and complete (S-48)."""

from __future__ import annotations

import gzip
import shutil
import subprocess
from pathlib import Path

import httpx
import pytest

import clew.server.page
from tests.support.npm import installed_for
from tests.support.rows import each_row

BUNDLE = Path(clew.server.page.__file__).parent / "bundle"
WEB = Path(__file__).parents[3] / "web"
MOST_AT_FIRST = 60_000
MOST = 90_000
"""With what is loaded when it is first looked at: charts, the tree, files, comparisons, dialogs."""


def test_what_a_visit_loads_is_small() -> None:
    sizes = {path.name: len(gzip.compress(path.read_bytes(), 9)) for path in BUNDLE.glob("*.*s")}
    assert set(sizes) == {"app.js", "app.css", "later.js"}
    assert sizes["app.js"] + sizes["app.css"] <= MOST_AT_FIRST
    assert sum(sizes.values()) <= MOST


def test_the_first_part_of_the_script_does_not_wait_for_the_rest() -> None:
    script = (BUNDLE / "app.js").read_text("utf-8")
    assert "import(`./later.js`)" in script or 'import("./later.js")' in script
    assert not script.startswith("import")


@pytest.fixture(scope="module")
def node_modules() -> Path:
    return installed_for(WEB)


def test_the_bundle_is_built_from_the_sources(tmp_path: Path, node_modules: Path) -> None:
    """It takes two seconds, because only the build itself can tell."""
    folder = tmp_path / "web"
    shutil.copytree(WEB, folder, ignore=shutil.ignore_patterns("node_modules"))
    (folder / "node_modules").symlink_to(node_modules)
    made = tmp_path / "made"
    done = subprocess.run(
        ["npm", "run", "build", "--", "--outDir", str(made), "--emptyOutDir"],
        cwd=folder, check=False, capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    assert {path.name: path.read_bytes() for path in made.iterdir()} == {
        path.name: path.read_bytes() for path in BUNDLE.iterdir()
    }, "run `make page`, and commit what it writes"


@each_row("path", ["/", "/s/any", "/s/~YS9i", "/usage", "/compare", "/?q=a&tag=b&odd"])
def test_every_view_is_the_same_document_with_a_strict_policy(client: httpx.Client, path: str) -> None:
    answer = client.get(path, headers={"authorization": ""})
    assert answer.status_code == 200
    policy = answer.headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    assert policy.endswith("require-trusted-types-for 'script'; trusted-types clew")
    assert answer.content == client.get("/").content
    assert b"<style" not in answer.content
    assert b"onload" not in answer.content


def test_the_page_can_be_installed_as_an_app(client: httpx.Client) -> None:
    assert b'<link rel="manifest" href="/manifest.webmanifest">' in client.get("/").content
    answer = client.get("/manifest.webmanifest", headers={"authorization": ""})
    assert answer.headers["content-type"] == "application/manifest+json"
    manifest = answer.json()
    assert (manifest["name"], manifest["display"]) == ("Clew", "standalone")
    assert manifest["start_url"] == manifest["scope"] == "./"
    for icon in manifest["icons"]:
        picture = client.get(f"/{icon['src']}")
        assert picture.headers["content-type"] == icon["type"]
    assert "manifest-src 'self'" in client.get("/").headers["content-security-policy"]


def test_a_browser_keeps_the_script_until_it_changes(client: httpx.Client) -> None:
    first = client.get("/app.js")
    again = client.get("/app.js", headers={"if-none-match": first.headers["etag"]})
    assert again.status_code == 304
