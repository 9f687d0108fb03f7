"""Names of files that hold nothing but secrets: a snapshot leaves them out by default.

Only names that say so by themselves. What may be anything, such as `credentials.json` or `.npmrc`, is for
the rules of the project.
"""

from __future__ import annotations

from typing import Final

_FILES: Final = frozenset({
    ".env", "id_rsa", "id_dsa", "id_ecdsa", "id_ecdsa_sk", "id_ed25519", "id_ed25519_sk", ".netrc", "_netrc",
    ".pgpass", ".my.cnf", ".pypirc", ".git-credentials", ".htpasswd", ".vault-token", ".dockercfg", ".s3cfg",
    "application_default_credentials.json",
})  # fmt: skip
_ENDINGS: Final = frozenset({".pem", ".key", ".ppk", ".p12", ".pfx", ".jks", ".keystore", ".kdbx"})
_DIRECTORIES: Final = frozenset({".ssh", ".gnupg", ".aws", ".azure", ".kube", ".password-store"})
_SHARED: Final = frozenset({".example", ".sample", ".template", ".dist", ".default", ".defaults"})
"""How a `.env` ends that shows others what to write there."""


def is_secret_file(name: str) -> bool:
    """Whether a file of this name is one of secrets; the case of letters does not matter."""
    name = name.lower()
    ending = name[name.rfind(".") :]
    return ending in _ENDINGS or name in _FILES or (name.startswith(".env.") and ending not in _SHARED)


def is_secret_directory(name: str) -> bool:
    """Whether a directory of this name is one of secrets, with all in it."""
    return name.lower() in _DIRECTORIES
