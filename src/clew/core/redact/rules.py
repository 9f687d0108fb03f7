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

from clew.core.redact.key_tail import KEY_END, begin_of_key, is_key_tail
from clew.core.redact.values import is_bearer, is_made_by_machine, is_opaque, is_password, is_secret_of


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
    begin: Callable[[re.Match[str]], int] | None = None
    """Tells where a secret begins of which the match is only the end."""


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


_NEW_LINE: Final = r"(?:(?:\\{1,4}r)?\\{1,4}n|\r?\n)"
_KEY_BLOCK: Final = re.compile(
    r"-----BEGIN (?:[A-Z0-9]{1,20} ){0,4}PRIVATE KEY(?: BLOCK)?-----"
    r"(?:(?>(?:[^-]|-(?!----)){0,65536})-----END [A-Z0-9 ]{1,60}-----|[A-Za-z0-9+/=\s\\]{0,65536})"
)

MORE_KEYS: Final = (
    r"(?:p8e-[0-9a-f]{32}|LTAI[A-Za-z0-9]{20}|pat[A-Za-z0-9]{14}\.[0-9a-f]{64}|CLOJARS_[a-z0-9]{60}"
    r"|dt0c01\.[A-Za-z0-9]{24}\.[A-Za-z0-9]{64}|EZ[AT]K[A-Za-z0-9]{54}|duffel_(?:test|live)_[\w=-]{43}"
    r"|FLWSECK(?:_TEST)?-[0-9a-zA-Z]{12,40}(?:-X)?|gl(?:ffct|imt|agent|oas|wt)-[\w-]{20,70}|HRKU-AA[\w-]{58}"
    r"|ico-(?=[a-z0-9]{0,31}[A-Z])[A-Za-z0-9]{32}|s-s4t2(?:ud|af)-[0-9a-f]{64}|NR(?:II|JS)-[A-Za-z0-9-]{19,40}|sha256~[\w-]{43}"
    r"|pul-[0-9a-f]{40}|pnu_[A-Za-z0-9]{36}|rdme_[a-z0-9]{70}|tk-us-[\w-]{48}|xkeysib-[0-9a-f]{64}-[A-Za-z0-9]{16}"
    r"|sm_[aps]at_[A-Za-z0-9]{16}|shippo_(?:live|test)_[0-9a-f]{40}|sgp_(?:[0-9a-fA-F]{16}_|local_)?[0-9a-fA-F]{40}"
    r"|tfp_[\w.=-]{59}|dnkey-[\w=-]{26}-[\w=-]{52}|fio-u-[\w=-]{64}"
    r"|bedrock-api-key-[A-Za-z0-9+/=]{20,}|(?:pat|sat)\.[\w-]{22}\.[0-9A-Za-z]{24}\.[0-9A-Za-z]{20}"
    r"|EAA[MC][A-Za-z0-9]{100,}|access-(?:sandbox|development|production)-[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}"
    r"|t1\.[\w-]{7,100}={0,2}\.[\w-]{86}={0,2})"
)
"""Keys of other vendors, each known by its beginning. Exports replace them."""
MORE_BEGINNINGS: Final = (
    "p8e-", "ltai", "pat", "clojars_", "dt0c01.", "ezak", "eztk", "duffel_", "flwseck", "glffct-", "glimt-",
    "glagent-", "gloas-", "glwt-", "hrku-aa", "ico-", "s-s4t2", "nrii-", "nrjs-", "sha256~", "pul-", "pnu_",
    "rdme_", "tk-us-", "xkeysib-", "sm_aat_", "sm_pat_", "sm_sat_", "shippo_", "sgp_", "tfp_", "dnkey-",
    "fio-u-", "bedrock-api-key-", "sat.", "eaam", "eaac", "access-", "t1.",
)  # fmt: skip

SHAPES: Final = (
    Rule("private-key", ("private key",), _KEY_BLOCK),
    Rule("private-key", ("private key",), KEY_END, is_key_tail, begin=begin_of_key),
    Rule(
        "private-key",
        ("private-lines",),
        re.compile(
            rf"Private-Lines: \d{{1,4}}(?:{_NEW_LINE}| )(?P<secret>[A-Za-z0-9+/=]{{16,128}}"
            # A blank where lines were joined: behind it stands no short line, which may be a word.
            rf"(?:(?:{_NEW_LINE}(?!Private-)[A-Za-z0-9+/=]{{1,128}}| [A-Za-z0-9+/=]{{24,128}})){{0,1000}})"
        ),
    ),
    # A private key in base64, as Kubernetes and CI keep it.
    _shape(
        "private-key",
        "ls0tls1crudjti",
        pattern=r"LS0tLS1CRUdJTi[A-Za-z0-9+/]{0,60}?(?:UFJJVkFURSBLRV|BSSVZBVEUgS0VZ|QUklWQVRFIEtFW)"
        r"[A-Za-z0-9+/]{40,}={0,2}",
    ),
    Rule(
        "private-key",
        ("client-key-data",),
        re.compile(
            r"(?i)client-key-data[\"'\\]{0,4}\s{0,3}[:=]\s{0,3}[\"'\\]{0,4}(?P<secret>[a-z0-9+/]{40,}={0,2})"
        ),
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
    _shape("huggingface-token", "hf_", "api_org_", pattern=r"(?:hf|api_org)_[A-Za-z0-9]{34}"),
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
    _shape("slack-token", "xox", "xapp", pattern=r"(?:xox[abceprs]|xoxo(?=-\d)|xapp)-[A-Za-z0-9-]{10,}"),
    Rule(
        "slack-webhook",
        ("hooks.slack.com",),
        re.compile(r"hooks\.slack\.com/(?:services|workflows|triggers)/(?P<secret>[A-Za-z0-9/]{30,})"),
    ),
    Rule(
        "teams-webhook",
        ("webhook.office.com",),
        re.compile(
            r"(?a)webhook\.office\.com/webhookb2/(?P<secret>[\w@.-]{36,120}/IncomingWebhook/[\w-]{16,64}/[\w-]{16,64})"
        ),
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
    _shape(
        "stripe-key", "k_live_", "k_test_", "k_prod_", pattern=r"[sr]k_(?:live|test|prod)_[A-Za-z0-9]{16,}"
    ),
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
    _shape("api-key", *MORE_BEGINNINGS, pattern=MORE_KEYS, definite=False),
    _shape("planetscale-token", "pscale_", pattern=r"pscale_(?:pw|tkn|oauth)_[\w.=-]{32,}"),
    _shape("grafana-token", "glsa_", pattern=r"glsa_[A-Za-z0-9]{32}_[A-Fa-f0-9]{8}"),
    _shape("grafana-token", "glc_", pattern=r"glc_[A-Za-z0-9+/]{32,400}={0,3}"),
    _shape("grafana-token", "eyjrijoi", pattern=r"eyJrIjoi[A-Za-z0-9]{60,400}={0,3}"),
    _shape("terraform-token", ".atlasv1.", pattern=r"[A-Za-z0-9]{14}\.atlasv1\.[\w=-]{60,70}"),
    _shape(
        "tailscale-key",
        "tskey-",
        pattern=r"tskey-(?:api|auth|client|scim|webhook)-[A-Za-z0-9]{6,40}(?:-[A-Za-z0-9]{16,64})?",
    ),
    _shape("1password-token", "ops_eyj", pattern=r"ops_eyJ[\w+/-]{100,}={0,3}"),
    _shape(
        "1password-token",
        "a3-",
        pattern=r"A3-[A-Z0-9]{6}-(?:[A-Z0-9]{6}-[A-Z0-9]{5}|[A-Z0-9]{11})(?:-[A-Z0-9]{5}){3}",
    ),
    _shape(
        "fly-token",
        "fo1_",
        "fm1r_",
        "fm1a_",
        "fm2_",
        pattern=r"(?:fo1_[\w-]{43}|fm(?:1[ra]|2)_[A-Za-z0-9+/]{80,}={0,3})",
    ),
    _shape("nvidia-key", "nvapi-", pattern=r"nvapi-[\w-]{60,70}"),
    _shape("pinecone-key", "pcsk_", pattern=r"pcsk_[A-Za-z0-9]{4,8}_[A-Za-z0-9]{40,80}"),
    _shape(
        "vercel-token",
        *("vcp_", "vci_", "vca_", "vcr_", "vck_", "vercel_blob_rw_"),
        pattern=r"(?:vc[piark]_[\w-]{48,64}|vercel_blob_rw_[A-Za-z0-9]{12,24}_[A-Za-z0-9]{20,40})",
    ),
    _shape(
        "square-token",
        *("sq0atp-", "sq0csp-", "eaaa"),
        pattern=r"(?:sq0atp-[\w-]{22,60}|sq0csp-[\w-]{43}|EAAA[EFl][\w-]{59})",
    ),
    _shape("doppler-token", "dp.", pattern=r"dp\.(?:pt|st|ct|sa)\.[\w.-]{40,}"),
)
"""Keys that are known by what they are."""

_WORDS: Final = (
    r"(?:password|passwd|passphrase|passcode|pwd|secret|token|credential|api[_-]?key|apikey|access[_-]?key"
    r"|auth[_-]?key|private[_-]?key|encryption[_-]?key|signing[_-]?key|master[_-]?key|account[_-]?key|_pass(?![a-z]))"
)
_HINTS: Final = ("pass", "pwd", "secret", "token", "credential", "key")

_QUOTED: Final = r"(?:(?P<quote>[\"'])(?P<quoted>[^\"'\r\n]{3,200})(?P=quote)|(?P<bare>[^\s\"']{3,200}))"

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
        re.compile(r"\s(?:-u|--user)[ =][\"']?[^\s:\"']{1,64}:(?P<secret>[^\s\"']{3,200})"),
        lambda match: is_password(match["secret"]),
        definite=False,
    ),
    Rule(
        "password",
        ("sshpass",),
        re.compile(
            r"\bsshpass(?:\s{1,4}-[ve]){0,2}\s{1,4}-p\s{0,4}" + _QUOTED,
        ),
        lambda match: is_password(match["quoted"] or match["bare"]),
        definite=False,
    ),
    Rule(
        "password",
        ("mysql", "mariadb"),
        re.compile(
            r"\b(?:mysql|mariadb)[a-z-]{0,12}\b[^\r\n|;&]{0,200}?\s(?:-p|--password=)(?!\d{1,5}:)" + _QUOTED
        ),
        lambda match: is_password(match["quoted"] or match["bare"]),
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
            r"(?:[ \t]{1,4}[Ss]tring)?[ \t]{0,4}(?P<sign>=>|:{1,3}=|[?.+]=|=|:)[ \t]{0,4}"
            r"(?:(?P<quote>\\{0,3}[\"'`])(?P<quoted>[^\"'`\r\n\\]{3,200})(?=\\{0,3}[\"'`])"
            r"|(?P<bare>[^\s\"'`,;\\]{4,200}))"
        ),
        is_secret_of,
        definite=False,
    ),
    Rule(
        "secret",
        ("secret",),
        # client_secret: value, in letters alone
        re.compile(
            r"(?i)client[_-]?secret[\"'\\]{0,4}\s{0,3}(?:=>|:=|=|:)\s{0,3}[\"'`\\]{0,4}"
            r"(?P<secret>[\w.~+/=-]{16,200})(?![\w(])"
        ),
        lambda match: is_made_by_machine(match["secret"]),
        definite=False,
    ),
    Rule(
        "secret",
        _HINTS,
        # "NAME", "value": a call that sets something
        re.compile(
            rf"(?i)(?P<word>{_WORDS}[A-Za-z0-9_-]{{0,24}})(?P<quote>[\"'])[ \t]{{0,4}},[ \t]{{0,4}}"
            r"(?P=quote)(?P<quoted>[^\"'`\s\\]{8,200})(?P=quote)"
        ),
        lambda match: is_secret_of(match) and is_opaque(match["quoted"]),
        definite=False,
    ),
    Rule(
        "secret",
        _HINTS,
        # <name>value</name>
        re.compile(
            rf"(?i)(?P<word>{_WORDS}[A-Za-z0-9_-]{{0,24}})>\s{{0,80}}(?P<quoted>[^<>\s\"']{{4,200}})\s{{0,80}}</"
        ),
        lambda match: is_secret_of(match) and is_opaque(match["quoted"]),
        definite=False,
    ),
    Rule(
        "secret",
        _HINTS,
        # <add key="NAME" value="value" />
        re.compile(
            rf"(?i)(?P<word>{_WORDS}[A-Za-z0-9_-]{{0,24}})(?P<quote>[\"'])\s{{1,4}}value\s{{0,2}}=\s{{0,2}}"
            r"(?P=quote)(?P<quoted>[^\"'\r\n]{4,200})(?P=quote)"
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
