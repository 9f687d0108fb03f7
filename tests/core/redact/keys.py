"""Keys as their vendors make them, at random: invented ones, of every kind that a definite rule knows."""

from __future__ import annotations

import random
from collections.abc import Callable
from string import ascii_letters, ascii_lowercase, ascii_uppercase, digits
from typing import Final

ALNUM: Final = ascii_letters + digits
WORD: Final = ALNUM + "_-"
HEX: Final = digits + "abcdef"
BASE64: Final = ALNUM + "+/"
BASE32: Final = ascii_uppercase + "234567"


class Maker:
    """Writes templates: `{a36}` is 36 letters and digits, `w` word characters, `h` hex, `b` base64, `U`
    base32, `u` capitals and digits, `d` digits, `l` small letters."""

    SETS: Final = {
        "a": ALNUM, "w": WORD, "h": HEX, "b": BASE64, "U": BASE32, "u": ascii_uppercase + digits, "d": digits,
        "l": ascii_lowercase,
    }  # fmt: skip

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)

    def fill(self, template: str) -> str:
        out, rest = "", template
        while "{" in rest:
            text, _, rest = rest.partition("{")
            slot, _, rest = rest.partition("}")
            out += text + self._some(self.SETS[slot[0]], int(slot[1:]))
        return out + rest

    def _some(self, letters: str, count: int) -> str:
        """With a digit in it, and no sign at its ends, where a rule would not see the end of the key."""
        found = "".join(self._random.choices(letters, k=count))
        if count > 3 and letters is not ascii_lowercase:
            found = f"a7{found[2:-1]}Z" if "a" in letters and "Z" in letters else found
        return found


TEMPLATES: Final[tuple[tuple[str, str], ...]] = (
    ("private-key", "AGE-SECRET-KEY-1{u58}"),
    ("private-key", "-----BEGIN PRIVATE KEY-----\n{b64}\n{b64}\n-----END PRIVATE KEY-----"),
    ("private-key", "-----BEGIN RSA PRIVATE KEY-----\n{b64}\n{b64}"),
    (
        "private-key",
        "-----BEGIN EC PRIVATE KEY-----\nProc-Type: 4,ENCRYPTED\nDEK-Info: {u9}\n\n{b64}\n-----END KEY-----",
    ),
    (
        "private-key",
        "-----BEGIN PGP PRIVATE KEY BLOCK-----\n\n{b64}\n{b64}\n-----END PGP PRIVATE KEY BLOCK-----",
    ),
    ("jwt", "eyJhbGciOiJIUzI1NiJ9.eyJ{a24}.{w43}"),
    ("anthropic-key", "sk-ant-api03-{w93}AA"),
    ("anthropic-key", "sk-ant-oat01-{w86}"),
    ("openrouter-key", "sk-or-v1-{h64}"),
    ("openai-key", "sk-proj-{w74}T3BlbkFJ{w74}"),
    ("openai-key", "sk-svcacct-{w60}"),
    ("openai-key", "sk-{a20}T3BlbkFJ{a20}"),
    ("api-key", "sk-{h32}"),
    ("groq-key", "gsk_{a52}"),
    ("xai-key", "xai-{a80}"),
    ("perplexity-key", "pplx-{a48}"),
    ("huggingface-token", "hf_{a34}"),
    ("replicate-token", "r8_{a37}"),
    ("langsmith-key", "lsv2_pt_{h32}_{h10}"),
    ("tavily-key", "tvly-{w32}"),
    ("google-api-key", "AIza{w35}"),
    ("google-oauth", "ya29.{w60}"),
    ("google-oauth", "GOCSPX-{w28}"),
    ("google-oauth", "1//0{w60}"),
    ("aws-key-id", "AKIA{U16}"),
    ("aws-key-id", "ASIA{U16}"),
    ("aws-bedrock-key", "ABSKQmVkcm9ja0FQSUtleS{b100}="),
    ("aws-secret-key", "aws_secret_access_key = {b40}"),
    ("aws-secret-key", "AWS_SECRET_ACCESS_KEY={b40}"),
    ("aws-secret-key", '"SecretAccessKey": "{b40}"'),
    ("aws-session-token", "IQoJb3JpZ2luX2VjEAaC{b200}"),
    ("azure-key", "AccountName=a;AccountKey={b86}==;"),
    ("azure-key", "SharedAccessKey={b43}="),
    ("azure-sas", "?sv=2022-11-02&sp=r&sig={a40}%3D"),
    ("azure-secret", "a1b8Q~{a34}"),
    ("github-token", "ghp_{a36}"),
    ("github-token", "ghs_{a36}"),
    ("github-token", "github_pat_{a22}_{a59}"),
    ("gitlab-token", "glpat-{w20}"),
    ("slack-token", "xoxb-{d12}-{d12}-{a24}"),
    ("slack-token", "xapp-1-A{u10}-{d13}-{h64}"),
    ("slack-webhook", "https://hooks.slack.com/services/T{u10}/B{u10}/{a24}"),
    (
        "teams-webhook",
        "https://a.webhook.office.com/webhookb2/{h8}-{h4}@{h32}/IncomingWebhook/{h32}/{h36}",
    ),
    ("discord-webhook", "https://discord.com/api/webhooks/{d18}/{w68}"),
    ("discord-token", "M{a25}.{a6}.{w38}"),
    ("telegram-token", "{d10}:AA{w33}"),
    ("stripe-key", "sk_live_{a24}"),
    ("stripe-key", "rk_test_{a99}"),
    ("webhook-secret", "whsec_{a32}"),
    ("sendgrid-key", "SG.{w22}.{w43}"),
    ("twilio-key", "SK{h32}"),
    ("npm-token", "npm_{a36}"),
    ("pypi-token", "pypi-AgEIcHlwaS5vcmc{w120}"),
    ("rubygems-key", "rubygems_{h48}"),
    ("docker-token", "dckr_pat_{w27}"),
    ("digitalocean-token", "dop_v1_{h64}"),
    ("shopify-token", "shpat_{h32}"),
    ("databricks-token", "dapi{h32}"),
    ("vault-token", "hvs.{w90}"),
    ("linear-key", "lin_api_{a40}"),
    ("notion-token", "ntn_{a46}"),
    ("atlassian-token", "ATATT3{w180}"),
    ("supabase-key", "sbp_{h40}"),
    ("supabase-key", "sb_secret_{w31}"),
    ("newrelic-key", "NRAK-{u27}"),
    ("postman-key", "PMAK-{h24}-{h34}"),
    ("figma-token", "figd_{w40}"),
    ("sentry-token", "sntrys_{a60}"),
    ("planetscale-token", "pscale_tkn_{w43}"),
    ("private-key", "{b64}\n{b64}\n{b20}==\n-----END RSA PRIVATE KEY-----"),
    ("private-key", "client-key-data: {b400}="),
    ("private-key", "key: LS0tLS1CRUdJTiBSU0EgUFJJVkFURSBLRVktLS0tLQ{a200}"),
    ("private-key", "Private-Lines: 2\n{b64}\n{b40}"),
    ("grafana-token", "glsa_{a32}_{h8}"),
    ("grafana-token", "glc_eyJvIjoi{a60}"),
    ("grafana-token", "eyJrIjoi{a72}"),
    ("terraform-token", "{a14}.atlasv1.{w67}"),
    ("tailscale-key", "tskey-auth-k{a10}CNTRL-{a32}"),
    ("1password-token", "A3-{u6}-{u6}-{u5}-{u5}-{u5}-{u5}"),
    ("1password-token", "ops_eyJ{a250}"),
    ("fly-token", "fo1_{w43}"),
    ("fly-token", "fm2_lJPECAAAAAAAA{b120}"),
    ("nvidia-key", "nvapi-{w64}"),
    ("pinecone-key", "pcsk_{a6}_{a62}"),
    ("vercel-token", "vcp_{a56}"),
    ("vercel-token", "vercel_blob_rw_{a16}_{a30}"),
    ("square-token", "sq0atp-{w22}"),
    ("square-token", "sq0csp-{w43}"),
    ("square-token", "EAAAE{w59}"),
    ("doppler-token", "dp.pt.{a43}"),
    ("connection-string", "postgres://app:{a12}@db.internal:5432/prod"),
    ("connection-string", "mongodb+srv://root:{a10}@cluster0.abcde.mongodb.net/test"),
    ("connection-string", "redis://:{h12}@cache:6379/0"),
    ("connection-string", "https://deploy:{a20}@git.example.com/repo.git"),
    ("clew-token", "clew_t{h9}_{a43}"),
    ("clew-token", "clew_own_{a43}"),
)


def keys(seeds: int) -> list[tuple[str, str]]:
    """(kind, text): some for each template."""
    return [
        (kind, Maker(number * 1000 + at).fill(template))
        for number in range(seeds)
        for at, (kind, template) in enumerate(TEMPLATES)
    ]


AROUND: Final[tuple[Callable[[str], str], ...]] = (
    lambda key: key,
    lambda key: f"use {key} please",
    lambda key: f"first line\n{key}\nlast line",
    lambda key: f'export TOKEN="{key}"',
    lambda key: f"TOKEN={key};",
    lambda key: f'{{"arguments": "{{\\"token\\":\\"{key}\\"}}"}}',
    lambda key: f"echo hi\\n{key}\\n",
    lambda key: f"\x1b[32m{key}\x1b[0m",
    lambda key: f"see (?token={key}) and <{key}>",
    lambda key: f"`{key}`, '{key}', [{key}]",
    lambda key: "é" * 30 + key + "ü" * 30,
)
"""What may stand around a key."""
