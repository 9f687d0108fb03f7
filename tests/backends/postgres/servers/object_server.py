"""An S3 server to test with: moto's, in a process of its own, spoken to over HTTP as any other.

It is the fast one. It keeps everything in memory and is kinder than real ones: what Ceph's gateway, MinIO
or Amazon do differently is not tested here.
"""

from __future__ import annotations

import subprocess
import sys
import urllib.error
import urllib.request
import uuid
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from tests.backends.postgres.servers.cluster import free_port
from tests.support.waiting import until

SECRET = "not-to-be-shown-to-anybody"


@contextmanager
def serving() -> Iterator[str]:
    """The address of a server that knows no buckets yet."""
    port = free_port()
    server = subprocess.Popen(
        [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    address = f"http://127.0.0.1:{port}"
    try:
        until(lambda: _answers(address, server))
        yield address
    finally:
        server.terminate()
        server.wait()


def _answers(address: str, server: subprocess.Popen[bytes]) -> bool:
    assert server.poll() is None, "the S3 server did not start"
    try:
        urllib.request.urlopen(f"{address}/moto-api/data.json").close()
    except urllib.error.HTTPError:
        return True
    except OSError:
        return False
    return True


@contextmanager
def locked(address: str) -> Iterator[None]:
    """Every key is a wrong one."""
    allow = urllib.request.Request(f"{address}/moto-api/reset-auth", headers={"Content-Type": "text/plain"})
    urllib.request.urlopen(allow, data=b"0").close()
    try:
        yield
    finally:
        urllib.request.urlopen(allow, data=b"inf").close()


def make_bucket(address: str, name: str) -> None:
    urllib.request.urlopen(urllib.request.Request(f"{address}/{name}", method="PUT")).close()


def use(monkeypatch: pytest.MonkeyPatch, address: str) -> None:
    """As a user says it: in the environment."""
    given = {"ACCESS_KEY_ID": "tests", "SECRET_ACCESS_KEY": SECRET, "REGION": "us-east-1"}
    for name, value in {**given, "ENDPOINT_URL": address}.items():
        monkeypatch.setenv(f"AWS_{name}", value)


@pytest.fixture(scope="session")
def object_server() -> Iterator[str]:
    with serving() as address:
        yield address


@pytest.fixture
def bucket(object_server: str, monkeypatch: pytest.MonkeyPatch) -> str:
    """The address of an empty bucket."""
    name = f"clew-{uuid.uuid4().hex[:12]}"
    make_bucket(object_server, name)
    use(monkeypatch, object_server)
    return f"s3://{name}/packs"
