"""What a secret looks like: one rule for each kind.

The rules are of two sorts. Most know the shape that a vendor gives to its keys: where the shape is found, it
is a key. The others know the words that stand before a secret; what follows them is judged by `values.py`,
because a name like `token` stands before many harmless things.

Every pattern reads a text in one pass: no group is repeated inside a repeated group, and what is repeated
without end is a set of characters. A rule is only tried on texts that hold one of its `hints`.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final, NamedTuple

from clew.core.redact.values import is_bearer, is_opaque, is_password, is_secret_of


class Rule(NamedTuple):
    kind: str
    hints: tuple[str, ...]
    """One of these is in every text that matches, in lower case."""
    pattern: re.Pattern[str]
    """The group `secret` is what is replaced; without one, all of the match."""
    accepts: Callable[[re.Match[str]], bool] | None = None
    definite: bool = True
    """What it finds is a secret, whatever stands around it: it is replaced on the way in too."""
    is_own: bool = False
    """A rule of the caller, whose finds are not judged."""


_WRITTEN: Final = r"(?<=\\[nrt])|(?<=\x1b\[\dm)|(?<=\x1b\[\d\dm)"
"""Ends with a letter, and is no part of a word: a line end as programs write it, a colour of a terminal."""
_BEGIN: Final = rf"(?:(?<![A-Za-z0-9_])|{_WRITTEN}|(?<=%[0-9A-Fa-f]{{2}}))"
"""A key does not begin inside a word. A character of an address may stand before it."""


def _shape(
    kind: str,
    *hints: str,
    pattern: str,
    accepts: Callable[[re.Match[str]], bool] | None = None,
    definite: bool = True,
) -> Rule:
    return Rule(kind, hints, re.compile(rf"(?a:{_BEGIN}{pattern}(?![A-Za-z0-9_]))"), accepts, definite)


_KEY_BLOCK: Final = re.compile(
    r"-----BEGIN (?:[A-Z0-9]{1,20} ){0,4}PRIVATE KEY(?: BLOCK)?-----"
    r"(?:(?>(?:[^-]|-(?!----)){0,65536})-----END [A-Z0-9 ]{1,60}-----|[A-Za-z0-9+/=\s\\]{0,65536})"
)

SHAPES: Final = (
    Rule("private-key", ("private key",), _KEY_BLOCK),
    Rule(
        "private-key",
        ("private-lines",),
        re.compile(r"Private-Lines: \d{1,4}\r?\n(?P<secret>[A-Za-z0-9+/=\r\n]{16,65536})"),
    ),
    _shape("private-key", "age-secret-key-1", pattern=r"AGE-SECRET-KEY-1[0-9A-Z]{58}"),
    _shape("jwt", "eyj", pattern=r"eyJ[\w-]{8,1000}\.(?:eyJ[\w-]{8,}|[\w-]*\.[\w-]+\.[\w-]+)\.[\w-]{8,}"),
    _shape("anthropic-key", "sk-ant-", pattern=r"sk-ant-[a-z0-9]{2,12}-[\w-]{20,}"),
    _shape("openrouter-key", "sk-or-", pattern=r"sk-or-v1-[0-9a-f]{48,}"),
    _shape("openai-key", "sk-", pattern=r"sk-(?:proj|svcacct|admin|None)-[\w-]{20,}"),
    _shape("openai-key", "t3blbkfj", pattern=r"sk-[\w-]{16,200}T3BlbkFJ[\w-]{16,}"),
    _shape("api-key", "sk-", pattern=r"sk-(?=[a-z]{0,31}[A-Z0-9])[A-Za-z0-9]{32,}"),
    _shape("clew-token", "clew_", pattern=r"clew_[a-z0-9]{3,16}_[A-Za-z0-9]{43}"),
    _shape("groq-key", "gsk_", pattern=r"gsk_[A-Za-z0-9]{40,}"),
    _shape("xai-key", "xai-", pattern=r"xai-[A-Za-z0-9]{60,}"),
    _shape("perplexity-key", "pplx-", pattern=r"pplx-[A-Za-z0-9]{40,}"),
    _shape("huggingface-token", "hf_", pattern=r"(?:hf|api_org)_[A-Za-z0-9]{34}"),
    _shape("replicate-token", "r8_", pattern=r"r8_[A-Za-z0-9]{37}"),
    _shape("langsmith-key", "lsv2_", pattern=r"lsv2_(?:pt|sk)_[0-9a-f]{32}_[0-9a-f]{10}"),
    _shape("tavily-key", "tvly-", pattern=r"tvly-[\w-]{28,}"),
    _shape("google-api-key", "aiza", pattern=r"AIza[\w-]{35}"),
    _shape("google-oauth", "ya29.", pattern=r"ya29\.[\w-]{30,}"),
    _shape("google-oauth", "gocspx-", pattern=r"GOCSPX-[\w-]{28}"),
    _shape("google-oauth", "1//0", pattern=r"1//0[\w-]{40,}"),
    _shape("aws-key-id", "akia", "asia", "abia", "acca", pattern=r"(?:AKIA|ASIA|ABIA|ACCA)[A-Z2-7]{16}"),
    _shape("aws-bedrock-key", "absk", pattern=r"ABSK[A-Za-z0-9+/]{100,}={0,2}"),
    Rule(
        "aws-secret-key",
        ("aws", "secretaccesskey", "secret_access_key"),
        re.compile(
            r"(?i)(?:aws|secret_?access_?key)[\w .-]{0,30}[\"'\\]{0,2}\s{0,3}[=:,]\s{0,3}[\"'\\]{0,2}"
            r"(?P<secret>(?-i:[A-Za-z0-9/+]{40}))(?![A-Za-z0-9/+=])"
        ),
        lambda match: is_opaque(match["secret"]),
    ),
    Rule(
        "aws-session-token",
        ("fwog", "iqoj", "fqog"),
        re.compile(rf"(?:(?<![A-Za-z0-9+/])|{_WRITTEN})(?:FwoG|IQoJ|FQoG)[A-Za-z0-9+/]{{100,}}={{0,2}}"),
    ),
    Rule(
        "azure-key",
        ("accountkey=", "sharedaccesskey=", "accesskey="),
        re.compile(r"(?i)(?:account|access|sharedaccess)key=(?P<secret>[A-Za-z0-9+/]{40,88}={1,2})"),
    ),
    Rule("azure-sas", ("sig=",), re.compile(r"[?&;]sig=(?P<secret>[A-Za-z0-9%/+_-]{40,}={0,2})")),
    Rule(
        "azure-secret",
        ("q~",),
        re.compile(rf"(?a:(?:(?<![\w~.-])|{_WRITTEN})[\w~.-]{{3}}\dQ~[\w~.-]{{31,34}}(?![\w~-]))"),
    ),
    _shape("github-token", "ghp_", "gho_", "ghu_", "ghs_", "ghr_", pattern=r"gh[pousr]_[A-Za-z0-9]{36,}"),
    _shape("github-token", "github_pat_", pattern=r"github_pat_[A-Za-z0-9]{22}_[A-Za-z0-9]{40,}"),
    _shape(
        "gitlab-token",
        "glpat-",
        "glptt-",
        "gldt-",
        "glrt-",
        "glcbt-",
        "glsoat-",
        "glft-",
        pattern=r"(?:glpat|glptt|gldt|glrt|glcbt|glsoat|glft)-[\w.-]{20,}",
    ),
    _shape("slack-token", "xox", "xapp", pattern=r"(?:xox[abceoprs]|xapp)-[A-Za-z0-9-]{10,}"),
    Rule(
        "slack-webhook",
        ("hooks.slack.com",),
        re.compile(r"hooks\.slack\.com/(?:services|workflows)/(?P<secret>[A-Za-z0-9/]{30,})"),
    ),
    Rule(
        "discord-webhook",
        ("api/webhooks/",),
        re.compile(r"(?a)discord(?:app)?\.com/api/webhooks/\d{15,20}/(?P<secret>[\w-]{60,})"),
    ),
    _shape(
        "discord-token",
        ".",
        pattern=r"[MNO][A-Za-z0-9_-]{23,25}\.[A-Za-z0-9_-]{6}\.[A-Za-z0-9_-]{27,38}",
        accepts=lambda match: is_opaque(match[0].rpartition(".")[2]) and any(map(str.isdigit, match[0])),
    ),
    _shape("telegram-token", ":aa", pattern=r"\d{8,10}:AA[\w-]{33}"),
    _shape("stripe-key", "k_live_", "k_test_", pattern=r"[sr]k_(?:live|test)_[A-Za-z0-9]{16,}"),
    _shape("webhook-secret", "whsec_", pattern=r"whsec_[A-Za-z0-9+/]{24,}={0,2}"),
    _shape("sendgrid-key", "sg.", pattern=r"SG\.[\w-]{16,32}\.[\w-]{16,64}"),
    _shape("twilio-key", "sk", pattern=r"SK[0-9a-f]{32}"),
    # Keys of caches look the same.
    _shape("mailgun-key", "key-", pattern=r"key-[0-9a-f]{32}", definite=False),
    _shape("npm-token", "npm_", pattern=r"npm_[A-Za-z0-9]{36}"),
    _shape("pypi-token", "pypi-", pattern=r"pypi-AgE[\w-]{50,}"),
    _shape("rubygems-key", "rubygems_", pattern=r"rubygems_[0-9a-f]{48}"),
    _shape("docker-token", "dckr_", pattern=r"dckr_(?:pat|oat)_[\w-]{27,}"),
    _shape("digitalocean-token", "_v1_", pattern=r"do[opr]_v1_[0-9a-f]{64}"),
    _shape(
        "shopify-token", "shpat_", "shpca_", "shppa_", "shpss_", pattern=r"shp(?:at|ca|pa|ss)_[0-9a-fA-F]{32}"
    ),
    _shape("databricks-token", "dapi", pattern=r"dapi[0-9a-f]{32}(?:-\d)?"),
    _shape("vault-token", "hvs.", "hvb.", "hvr.", pattern=r"hv[sbr]\.[\w-]{24,}"),
    _shape("linear-key", "lin_", pattern=r"lin_(?:api|oauth)_[A-Za-z0-9]{32,}"),
    _shape("notion-token", "ntn_", pattern=r"ntn_[A-Za-z0-9]{40,}"),
    _shape("atlassian-token", "atatt3", pattern=r"ATATT3[\w=-]{60,}"),
    _shape("supabase-key", "sbp_", "sb_secret_", pattern=r"(?:sbp_[0-9a-f]{40}|sb_secret_[\w-]{20,})"),
    _shape("newrelic-key", "nrak-", pattern=r"NRAK-[A-Z0-9]{27}"),
    _shape("postman-key", "pmak-", pattern=r"PMAK-[0-9a-f]{24}-[0-9a-f]{34}"),
    _shape("figma-token", "figd_", pattern=r"figd_[\w-]{40,}"),
    _shape("sentry-token", "sntry", pattern=r"sntry[su]_[A-Za-z0-9+/=_]{40,}"),
    _shape("planetscale-token", "pscale_", pattern=r"pscale_(?:pw|tkn|oauth)_[\w.=-]{32,}"),
    _shape("doppler-token", "dp.", pattern=r"dp\.(?:pt|st|ct|sa)\.[\w.-]{40,}"),
)
"""Keys that are known by what they are."""

_WORDS: Final = (
    r"(?:password|passwd|passphrase|passcode|pwd|secret|token|credential|api[_-]?key|apikey|access[_-]?key"
    r"|auth[_-]?key|private[_-]?key|encryption[_-]?key|signing[_-]?key|master[_-]?key|account[_-]?key|_pass(?![a-z]))"
)
_HINTS: Final = ("pass", "pwd", "secret", "token", "credential", "key")

CONTEXTS: Final = (
    Rule(
        "connection-string",
        ("://",),
        re.compile(
            rf"(?:(?<![A-Za-z0-9])|{_WRITTEN})"
            r"[A-Za-z][A-Za-z0-9+.-]{1,24}://[^\s:/@\[\"'`<>]{0,100}:(?!\d{1,5}/)"
            r"(?P<secret>[^\s\"'`<>?,;]{1,200}|[^\s/\"'`<>]{1,200})@(?=[A-Za-z0-9\[_%$({-])"
        ),
        lambda match: is_password(match["secret"]),
    ),
    Rule(
        "bearer-token",
        ("bearer", "token"),
        re.compile(
            r"(?i)\b(?:bearer|authorization[\"']?\s{0,3}[:=]\s{0,3}[\"']?token)\s{1,3}(?P<secret>[\w.~+/=-]{12,})"
        ),
        lambda match: is_bearer(match["secret"]),
        definite=False,
    ),
    Rule(
        "basic-auth",
        ("basic",),
        re.compile(
            r"(?i)authorization[\"'\\]{0,2}\s{0,3}[:=]\s{0,3}[\"'\\]{0,2}basic\s{1,3}(?P<secret>[A-Za-z0-9+/]{6,}={0,2})"
        ),
        definite=False,
    ),
    Rule(
        "password",
        ("curl", "wget", "http"),
        re.compile(r"\s(?:-u|--user)[ =][\"']?[^\s:\"']{1,64}:(?P<secret>[^\s\"'@]{3,200})"),
        lambda match: is_password(match["secret"]),
        definite=False,
    ),
    Rule(
        "password",
        ("login",),  # .netrc
        re.compile(r"\blogin\s{1,4}\S{1,64}\s{1,8}password\s{1,4}(?P<secret>\S{3,200})"),
        lambda match: is_password(match["secret"]),
        definite=False,
    ),
    Rule(
        "cookie",
        ("cookie",),
        re.compile(
            r"(?i)\bcookie[\"']?\s{0,3}[:=]\s{0,3}[\"']?[^\r\n=;\"']{1,64}=(?P<secret>[^\s;\"']{16,})"
        ),
        lambda match: is_opaque(match["secret"]),
        definite=False,
    ),
    Rule(
        "secret",
        _HINTS,
        # --password value, --api-key=value
        re.compile(
            rf"(?i)\s--?(?P<name>[a-z-]{{0,20}}{_WORDS}[a-z-]{{0,10}})[ =]"
            r"(?P<quote>[\"']?)(?P<secret>[^\s\"']{4,200})"
        ),
        is_secret_of,
        definite=False,
    ),
    Rule(
        "secret",
        _HINTS,
        # NAME=value, "name": "value", name => 'value', also with the quotes of JSON inside JSON. How the
        # name begins is looked at where a word of secrets was found, not the other way round.
        re.compile(
            rf"(?i)(?P<word>{_WORDS}[A-Za-z0-9_-]{{0,24}})[\"'\\]{{0,4}}\]{{0,2}}"
            r"[ \t]{0,4}(?P<sign>=>|:=|=|:)[ \t]{0,4}"
            r"(?:(?P<quote>\\{0,3}[\"'`])(?P<quoted>[^\"'`\r\n\\]{3,200})(?=\\{0,3}[\"'`])"
            r"|(?P<bare>[^\s\"'`,;\\]{4,200}))"
        ),
        is_secret_of,
        definite=False,
    ),
    Rule(
        "secret",
        _HINTS,
        # "the password is …", as people write it
        re.compile(
            r"(?i)\b(?P<name>password|passphrase|passcode|api[ -]?key|access key|secret key|token|secret)"
            r"[ \t](?:is|was|to|for[ \t][^\r\n:]{1,40}:)[ \t]?:?[ \t]?"
            r"(?P<quote>[\"'`]?)(?P<said>[^\s\"'`]{6,200})"
        ),
        is_secret_of,
        definite=False,
    ),
)
"""Secrets that are known by what stands before them."""

RULES: Final = SHAPES + CONTEXTS
DEFINITE: Final = tuple(rule for rule in RULES if rule.definite)
"""Those whose finds are secrets beyond doubt, as far as `values.is_surely_secret` lets them pass."""
