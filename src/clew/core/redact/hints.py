"""Whether a text may hold a definite secret at all: an answer at the price of a glance.

Nearly nothing that comes into a store holds a secret. A search for each of a hundred beginnings would take
longer than the rest of an import, and so would one expression for all of them. But nearly every key has
twenty characters in a row of which names are made, and few other things have: these rows are looked for, and
only their beginnings are compared. What has no such row (passwords, private keys) has a rare character in
what stands around it.
"""

from __future__ import annotations

import re
from typing import Final

from clew.core.redact.escapes import forms_in_json

_LONG: Final = 20
_ROWS: Final = bytes(
    ord("a") if chr(code).isascii() and (chr(code).isalnum() or chr(code) in "_-") else ord(" ")
    for code in range(256)
)
_ROW: Final = b"a" * _LONG

_BEGINNINGS: Final = frozenset(
    b"AGE eyJ sk- cle gsk xai ppl hf_ api r8_ lsv tvl AIz GOC AKI ASI ABI ACC ABS Fwo IQo FQo ghp gho ghu ghs"
    b" ghr git glp gld glr glc gls glf xox xap sk_ rk_ whs npm pyp rub dck doo dop dor shp dap lin ntn ATA"
    b" sbp sb_ NRA PMA fig snt psc SK0 SK1 SK2 SK3 SK4 SK5 SK6 SK7 SK8 SK9 SKa SKb SKc SKd SKe SKf"
    b" LS0 gls tsk ops fo1 fm1 fm2 nva pcs vcp vci vca vcr vck ver sq0 EAA A3-".split()
)
"""The first three characters of keys that begin with their row."""
_KEYS: Final = re.compile(
    rb"sk-(?:ant-|or-v1-|proj-|svcacct-|admin-|None-|[A-Za-z0-9]{32}|[\w-]{16,200}T3BlbkFJ)|AGE-SECRET-KEY-1"
    rb"|clew_[a-z0-9]{3,16}_[A-Za-z0-9]{43}"
    rb"|eyJ|gsk_|xai-|pplx-|(?:hf|api_org)_[A-Za-z0-9]{34}|r8_|lsv2_|tvly-|AIza|GOCSPX-"
    rb"|(?:AKIA|ASIA|ABIA|ACCA|ABSK|FwoG|IQoJ|FQoG)|gh[pousr]_[A-Za-z0-9]{36}|github_pat_"
    rb"|gl(?:pat|ptt|dt|rt|cbt|soat|ft)-|(?:xox[abceoprs]|xapp)-|[sr]k_(?:live|test|prod)_|whsec_|npm_[A-Za-z0-9]{36}"
    rb"|pypi-AgE|rubygems_[0-9a-f]{48}|dckr_|do[opr]_v1_|shp(?:at|ca|pa|ss)_|dapi[0-9a-f]{32}|lin_(?:api|oauth)_"
    rb"|ntn_|ATATT3|sbp_[0-9a-f]{40}|sb_secret_|NRAK-|PMAK-|figd_|sntry[su]_|pscale_|SK[0-9a-f]{32}"
    rb"|LS0tLS1CRUdJTi|gl(?:sa|c)_|tskey-|ops_eyJ|fo1_|fm(?:1[ra]|2)_|nvapi-|pcsk_|vc[piark]_|vercel_blob_rw_"
    rb"|sq0(?:atp|csp)-|EAAA[EFl]|A3-[A-Z0-9]{6}-"
)
_AFTER_DASH: Final = re.compile(rb"-(?:" + _KEYS.pattern + rb")")
_AFTER_DOT: Final = re.compile(rb"(?:SG\.(?:[\w-]{16,32}\.)?|hv[sbr]\.|ya29\.|dp\.[a-z]{2}\.|\.atlasv1\.)\Z")
_WITH_K: Final = re.compile(
    rb"K(?:EY(?: BLOCK)?-----|(?<=CCESS_K)EY|(?<=ccessK)ey|(?<=ountK)ey=|(?<=User-K)ey-File"
    rb"|(?<=SESSION_TOK)EN)"
)
"""Private keys, the secret keys and session tokens of AWS, keys of Azure."""
_WITH_AT: Final = re.compile(rb"://[^\s:/@\[\"'`<>]{0,100}:[^\s\"'`<>]{1,200}@")
_DISCORD: Final = re.compile(rb"(?:[bfnrt]|[0-9]{1,2}m)?[MNO][\w-]{23,25}\.[\w-]{6}\.[\w-]{27}")
_HOOKS: Final = (b"hooks.slack.com", b"/webhooks/", b"/IncomingWebhook/")
_SEEN_BACK: Final = 80
_LARGE: Final = 4096
_UUID: Final = 36
"""How long these ids are, of which each line of a file has some."""
_BASE64: Final = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/="
_DASH, _DOT, _SLASH, _COLON, _AT, _TILDE, _AND = b"-./:@~&"
_DATA: Final = frozenset(b"+/")
"""Behind a row of characters: it may be a part of base64."""
_BEFORE_KEYS: Final = frozenset(b"./:\\%[")
_BEGUN: Final = re.compile(rb"[0-9]{1,2}m|[0-9A-Fa-f]{2}|[bfnrt]?")
"""Of a row behind %, [ or a backslash: a colour, a character of an address, a line end."""


def may_hold(text: bytes) -> bool:
    """Whether there may be a definite secret in a text, encoded as JSON or not; False: surely not."""
    return _is_like_secret(text) or any(map(_is_like_secret, forms_in_json(text)))


def _is_like_secret(text: bytes) -> bool:
    rows = text.translate(_ROWS)
    start = rows.find(_ROW)
    if start >= 0 and _has_key(text, rows, start):
        return True
    return (
        (_AT in text and _WITH_AT.search(text) is not None)
        or _WITH_K.search(text) is not None
        or text.find(b"ccess_key") >= 0
        or text.find(b"client-key-data") >= 0
        or text.find(b"Private-Lines") >= 0
        or (_TILDE in text and text.find(b"Q~") >= 0)
        or (_AND in text and text.find(b"sig=") >= 0)
    )


def _has_key(text: bytes, rows: bytes, start: int) -> bool:
    """Whether one of the rows of characters begins as a key does, or stands where one would stand."""
    find, size = rows.find, len(text)
    while start >= 0:
        end = find(b" ", start + _LONG)
        behind = text[end] if end >= 0 else 0
        if end < 0:
            end = size
        if end - start == _UUID and text[start + 8] == _DASH == text[start + 13]:
            start = find(_ROW, end)
            continue
        if text[start : start + 3] in _BEGINNINGS and _KEYS.match(text, start):
            return True
        if start and text[start - 1] in _BEFORE_KEYS and _is_like_key_behind(text, start):
            return True
        if text.find(_DASH, start, end) >= 0 and _AFTER_DASH.search(text, start, end):
            return True
        if behind == _DOT and _DISCORD.match(text, start):
            return True
        if behind in _DATA:
            end = _end_of_data(text, start, end)
        start = find(_ROW, end)
    return False


def _end_of_data(text: bytes, start: int, end: int) -> int:
    """The end of a large piece of base64, such as an image, in which no key is looked for; else `end`."""
    quote = text.find(b'"', end)
    if quote - start < _LARGE or text.find(b" ", start, quote) >= 0:
        return end
    return end if text[start:quote].translate(None, _BASE64) else quote


def _is_like_key_behind(text: bytes, start: int) -> bool:
    """Whether a row of characters is a key together with what stands before it, or without its beginning."""
    before = text[start - 1]
    if before == _DOT:
        return _AFTER_DOT.search(text, max(0, start - _SEEN_BACK), start) is not None
    if before == _COLON:
        return text.startswith(b"AA", start)  # Telegram
    if before == _SLASH:
        return text.startswith(b"1//0", start - 3) or any(
            text.rfind(host, max(0, start - _SEEN_BACK), start) >= 0 for host in _HOOKS
        )
    begun = _BEGUN.match(text, start)
    return begun is not None and _KEYS.match(text, begun.end()) is not None
