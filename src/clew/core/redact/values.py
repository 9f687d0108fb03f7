"""Whether a value that stands where a secret would stand is one."""

from __future__ import annotations

import math
import re
from collections import Counter
from typing import Final

# As <password>, ${TOKEN}, {{ token }}, %s, sk-..., ****, your-api-key-here, changeme.
_PLACEHOLDER: Final = re.compile(
    r"(?i)^(?:"
    r"<[^<>]*>?|.{0,16}(?:\.\.\.|…)|\$[a-z_{(].*|\{.*|%[sd(].*|%[a-z_]\w*%|\[.*|.*\[redacted:.*"
    r"|[x*.•_-]+"
    r"|(?:your|my|the|some|an?|example|sample|dummy|fake|test|replace|change|insert|enter|put)[-_ ]?"
    r"(?:own|secret|super)?[-_ ]?(?:api|access|auth|secret|user|db)?[-_ ]?"
    r"(?:password|passwd|token|secret|key|pass|me|this|here|value|string|it)?[-_ ]?"
    r"(?:here|me|in|prod(?:uction)?)?"
    r"|none|null|nil|undefined|true|false|yes|no|on|off|string|str|int|bool|bytes|any|optional|required|object"
    r"|text|secret|password|passwd|token|api_?key|key|value|redacted|hidden|masked|empty|missing|invalid|unset"
    r"|set|bearer|basic|jwt|oauth2?|default|changeme|example|placeholder|todo|tbd"
    r")$"
)
_CODE: Final = re.compile(
    r"^(?:[A-Za-z_][\w]*(?:\.[A-Za-z_]\w*)+\b|[A-Za-z_]\w*(?:::\w+)+|[A-Za-z_][\w.]*[(\[]|self\.|this\.|@|&|\*|!)"
)
_TYPE_NAME: Final = (
    r"(?:str|string|String|bytes\d{0,2}|u?int\d{0,3}|[iuf](?:8|16|32|64|128)|float\d{0,2}|bool|None|null|undefined"
    r"|any|Any|(?:Ui|I)nt\d{1,2}(?:Clamped)?Array|Uint8|Buffer|Base64(?:Url)?String|[Ss]ha(?:1|256|512)"
    r"|(?:[A-Za-z_]\w{0,30}\.)?SecretStr|[A-Z][a-z]{1,10}\d{0,5}(?:Private|Public|Secret|Signing)Key)"
)
_TYPE: Final = re.compile(rf"{_TYPE_NAME}(?:[|<,]{_TYPE_NAME}>?){{0,4}}(?:=None)?[;,)]?")
"""A type annotation, as in `token: uint256`. No password is made of these words alone."""
_NAME_IS_HARMLESS: Final = re.compile(
    r"(?i)(?:tokens$|tokens[_.-]|tokeni[sz]|token[_.-]?(?:count|limit|usage|type|budget|ids?$|index|name|url|uri"
    r"|endpoint|class|expiry|expires|ttl|len|length|stream|kind|cost|price)"
    r"|(?:max|min|num|total|input|output|prompt|completion|cached?|reasoning|stop|pad|eos|bos|unk|sep|cls|mask"
    r"|next|page|continuation|sync|bad|special|new)[_.-]?tokens?$"
    r"|(?:next|page|continuation|cancellation|cancel)[_.-]?(?:page)?[_.-]?token"
    r"|(?:password|passwd|pwd|secret|key|credential|token)s?[_.-]?(?:file|path|dir|name|field|label|hint|policy|length"
    r"|min|max|rules?|reset|hash(?:er|ing)?|type|env|var|version|arn|ref|manager|store|id|count|prompt|input"
    r"|required|enabled|strength|error|url|chain|valid\w{0,20}|check\w{0,20}|provider|helper|source|usage|format|alias)$"
    r"|secretary|passwordless|key(?:board|ing|frame|stroke|press)|jsonwebtoken|tokenless)"
)
_STRONG_NAME: Final = re.compile(r"(?i)pass(?:word|wd|phrase|code)|pwd|secret|_pass$")
_NAMES_ONE: Final = re.compile(r"(?i)password|passwd|secret|token|credential|key")
"""In a value: it is the name of a secret, as in `PASSWORD_FIELD = "user_password"`."""
_ENV_NAME: Final = re.compile(r"^[A-Z][A-Z0-9_]*$")
_HEX: Final = re.compile(r"^[0-9a-fA-F]+$")
_UUID: Final = re.compile(r"^[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}$")
_PATH: Final = re.compile(
    r"^(?:[.~]{0,2}/|[A-Za-z]:\\|https?://|file:|s3://|gs://|arn:|vault:|op://|secretRef)"
)
_VALUE_WORDS: Final = re.compile(
    r"^[a-z]+(?:[-_. ][a-z]+)*[.!?:]?$|^[A-Z][a-z]+[.!?:]?$|^[A-Z]+(?:_[A-Z]+)+$"
)
_IDENTIFIER: Final = re.compile(r"^[A-Za-z]+(?:[_-][A-Za-z]+)*[_-]?\d{0,1}$")
_RAISED: Final = re.compile(r"[a-z](?=[A-Z])")
LONGEST_BEGINNING: Final = 40
_BEGUN_NAME: Final = re.compile(rf"(?<![A-Za-z0-9])[A-Za-z0-9_.-]{{0,{LONGEST_BEGINNING}}}\Z")
LONGEST_NAME: Final = 200
"""Of a longer name its end counts, which says most."""

# Keys of handbooks: AKIAIOSFODNN7EXAMPLE, sk_test_1234567890, and the token that every page on JWT shows.
_EXAMPLE: Final = re.compile(
    r"(?i)example|0123456789|1234567890|123456789a|abcdefghij|eyJzdWIiOiIxMjM0NTY3ODkw"
)
_KEY_CONTENT: Final = re.compile(r"[A-Za-z0-9+/=]{40}")
_ADDRESS: Final = re.compile(
    r"(?i)(?:https?|s?ftp|ftps|ssh|git|svn|wss?|postgres|postgresql|pgsql|cockroachdb|redshift|mysql|mysqlx"
    r"|mariadb|mongodb|rediss?|valkeys?|amqps?|mssql|sqlserver|oracle|db2|clickhouse|snowflake|trino|neo4js?"
    r"|bolt|couchdb|elasticsearch|es|kafka|nats|mqtts?|stomp|ldaps?|smtps?|imaps?|pop3s?|socks[45]h?|rtsp|s3"
    r"|sentry|celery|influxdb|cassandra)(?:\+[a-z0-9_.+-]{1,20})?://(?P<user>[^:]{0,100}):"
)
_LINE_ENDS: Final = ("\\n", "\\r", "\\t")
_TEMPLATE: Final = re.compile(r"[{}<>]|\$[({]|%[(sd]|^[$%*]|\.\.\.|…|^\d{1,5}[^A-Za-z0-9]")
_SHORT_WORD: Final = re.compile(r"[A-Za-z]{1,15}|\d{1,5}")


def entropy(text: str) -> float:
    """Bits for each character, by how often the characters occur."""
    size = len(text)
    return -sum(n / size * math.log2(n / size) for n in Counter(text).values()) if size else 0.0


def is_placeholder(value: str) -> bool:
    return bool(_PLACEHOLDER.match(value.strip()))


def is_opaque(value: str) -> bool:
    """Long, mixed and without pattern: what a machine made."""
    if len(value) < 16 or is_placeholder(value) or _UUID.match(value):
        return False
    kinds = sum(any(map(test, value)) for test in (str.isdigit, str.islower, str.isupper))
    return kinds >= 2 and entropy(value) >= 3.0


def is_made_by_machine(value: str) -> bool:
    """Where a machine's secret stands: letters and digits at random, or letters alone that change their size
    more often than words do."""
    if is_placeholder(value) or _PATH.match(value) or _CODE.match(value) or _VALUE_WORDS.match(value):
        return False
    if any(map(str.isdigit, value)):
        return _is_mixed(value)
    return len(_RAISED.findall(value)) > len(value) / 5


def is_password(value: str) -> bool:
    """In a place where only a password stands: all but what stands for one."""
    return not is_placeholder(value.rstrip(">")) and not value.startswith("$")


def is_bearer(value: str) -> bool:
    """After `Bearer`: not the words of a sentence about bearer tokens."""
    return not is_placeholder(value) and not _VALUE_WORDS.match(value) and any(map(str.isdigit, value))


def is_surely_secret(kind: str, match: re.Match[str], secret: str) -> bool:
    """Whether what a definite rule found is beyond doubt: no example of a handbook, no row of x, and no
    `user:password@host` that only shows how an address is written."""
    if kind == "connection-string":
        return _is_surely_password(match, secret)
    if kind == "private-key":
        return _KEY_CONTENT.search(secret) is not None
    has_digit = kind == "aws-key-id" or any(map(str.isdigit, secret))
    return has_digit and not _EXAMPLE.search(secret) and len(set(secret[-24:].lower())) >= 7


def _is_surely_password(match: re.Match[str], secret: str) -> bool:
    begins = match.start() + match.string.startswith(_LINE_ENDS, max(0, match.start() - 1))
    address = _ADDRESS.match(match.string, begins)
    if address is None or match.string.startswith("sha256", match.end()):
        return False
    return (
        secret.lower() != address["user"].lower()
        and not is_placeholder(secret)
        and not _TEMPLATE.search(secret)
        and not _SHORT_WORD.fullmatch(secret)
    )


def is_secret_of(match: re.Match[str]) -> bool:
    """After a name like `api_key`: by the name, the quotes and the value."""
    groups = match.groupdict()
    said = groups.get("said")
    if said is not None:
        return _is_said(said)
    value = groups.get("quoted") or groups.get("bare") or groups.get("secret") or ""
    quote = groups.get("quote") or ""
    if quote.endswith("`") and " " in value:
        return False  # a command
    name = groups.get("name") or _whole_name(match)
    return name is not None and is_named_secret(name, value, quoted=bool(quote))


def _whole_name(match: re.Match[str]) -> str | None:
    """The name of which a word was found; None: the word stands inside of something longer than a name."""
    start = match.start("word")
    begun = _BEGUN_NAME.search(match.string[max(start - LONGEST_BEGINNING - 1, 0) : start])
    return None if begun is None else begun[0] + match["word"]


def is_named_secret(name: str, value: str, *, quoted: bool) -> bool:
    """Whether the value of a variable or field with such a name is to be hidden."""
    name = name[-LONGEST_NAME:]
    if _NAME_IS_HARMLESS.search(name) or is_placeholder(value) or _PATH.match(value):
        return False
    if _is_identifier(value) and _NAMES_ONE.search(value):
        return False
    if not quoted and (_CODE.match(value) or _TYPE.fullmatch(value) or value.endswith((")", "(", "]"))):
        return False
    if value.replace(".", "").replace("_", "").isdigit():
        return bool(_STRONG_NAME.search(name)) and len(value) >= 4 and (quoted or bool(_ENV_NAME.match(name)))
    if _ENV_NAME.match(name) and len(value) >= 4:
        return not _VALUE_WORDS.match(value) or bool(_STRONG_NAME.search(name) and len(value) >= 6)
    if quoted and " " in value:
        return bool(_STRONG_NAME.search(name)) and is_opaque(value)
    if _STRONG_NAME.search(name) and quoted and not _is_words(value):
        return True
    return _is_mixed(value)


def _is_said(value: str) -> bool:
    value = value.rstrip(".,;:!?)")
    return len(value) >= 6 and not is_placeholder(value) and not _CODE.match(value) and _is_mixed(value)


def _is_mixed(value: str) -> bool:
    """Neither a word nor a number nor a name: letters together with digits or signs."""
    if len(value) < 6 or _VALUE_WORDS.match(value) or _is_identifier(value):
        return False
    letters = sum(map(str.isalpha, value))
    digits = sum(map(str.isdigit, value))
    signs = sum(char in "!@#$%^&*?~+=/" for char in value)
    if _HEX.match(value):
        return len(value) >= 16 and digits > 0
    return letters >= 3 and (
        digits >= 2 or (digits + signs >= 1 and len(value) >= 8 and entropy(value) >= 2.5)
    )


def _is_words(value: str) -> bool:
    return value.replace("_", "").replace("-", "").isalpha()


def _is_identifier(value: str) -> bool:
    """A name of a program: words joined by underscores, dashes or capitals, with at most one short number."""
    return len(value) < 40 and bool(_IDENTIFIER.match(value))
