"""S-24: keys without their beginning, keys in base64 and passwords of commands: just they are replaced."""

from __future__ import annotations

import base64

from clew.core.redact import key_tail
from clew.core.redact.incoming import Incoming
from clew.core.redact.key_tail import KEY_END, begin_of_key
from clew.core.redact.redactor import Redactor
from tests.core.redact.keys import Maker
from tests.support.rows import each_row

LINES = [Maker(n).fill("{b64}") for n in range(3)]
END = "-----END RSA PRIVATE KEY-----"


def shown(text: str) -> str:
    return Redactor().text(text, "x")


# -- the end of a private key


@each_row(
    ("text", "clean"),
    [
        ("\n".join([*LINES, END]), "[K]"),
        ("$ tail key\n" + "\n".join([*LINES, "q8Zt/A==", END]) + "\n$ ", "$ tail key\n[K]\n$ "),
        ("\\n".join([*LINES, END]), "[K]"),
        ("\\r\\n".join(["it:", *LINES, END]), "it:\\r\\n[K]"),
        ("\r\n".join([*LINES, END]), "[K]"),
        ("\n".join(f"{n:6}\t{line}" for n, line in enumerate([*LINES, END], 9)), "     9\t[K]"),
        ("\n".join(f"  {n}\u2192{line}" for n, line in enumerate([*LINES, END], 9)), "  9\u2192[K]"),
        ("\n".join(f"> {line}" for line in [*LINES, END]), "> [K]"),
        ("Output\n" + "\n".join([*LINES, END]), "Output\n[K]"),
        ("the end of it: " + " ".join([*LINES, "q8Zt/A==", END]), "the end of it: [K]"),
        ("the end\n" + LINES[0] + END, "the end\n[K]"),
    ],
)
def test_s24_the_end_of_a_private_key_is_replaced_with_all_lines_before_it(text: str, clean: str) -> None:
    assert shown(text) == clean.replace("[K]", "[REDACTED:private-key]")
    assert "[redacted:private-key:" in Incoming(lambda: bytes(32)).text(text)
    assert LINES[2] not in Incoming(lambda: bytes(32)).text(text)


@each_row(
    "text",
    [
        f'if line == "{END}":',
        f"read until\n{END}\n",
        f"-----BEGIN PUBLIC KEY-----\n{LINES[0]}\n-----END PUBLIC KEY-----",
        f"{LINES[0]}\n-----END CERTIFICATE-----",
        f"the word before\n\n\n{END}",
    ],
)
def test_a_line_that_only_ends_something_stays(text: str) -> None:
    assert shown(text) == text


def test_the_search_for_the_beginning_looks_at_each_character_a_few_times() -> None:
    """However many ends there are: the work is counted, not timed."""
    looked = [0]

    class Counting(str):
        __slots__ = ()

        def __getitem__(self, at: object) -> str:
            found = str.__getitem__(self, at)  # type: ignore[index]
            looked[0] += len(found)
            return found

    for text in (END * 3000, ("A" * 63 + "\n") * 3000 + END, (LINES[0] + END) * 2000, ("\\n" + END) * 3000):
        looked[0] = 0
        counted = Counting(text)
        for match in KEY_END.finditer(counted):
            begin_of_key(_Match(match.start(), counted))  # type: ignore[arg-type]
        assert looked[0] <= 40 * len(text)
        assert looked[0] >= len(KEY_END.findall(text)), "it was looked at"


class _Match:
    def __init__(self, start: int, string: str) -> None:
        self.string = string
        self._start = start

    def start(self) -> int:
        return self._start


def test_a_key_is_replaced_so_far_back_and_no_further() -> None:
    text = "\n".join([LINES[0]] * 3000 + [END])
    match = KEY_END.search(text)
    assert match is not None
    assert match.start() - begin_of_key(match) <= key_tail._LONGEST + 100


# -- keys in files of Kubernetes and PuTTY


def test_s24_a_kubeconfig_keeps_its_certificate_and_not_its_key() -> None:
    pem = f"-----BEGIN EC PRIVATE KEY-----\n{LINES[0]}\n{LINES[1]}\n-----END EC PRIVATE KEY-----\n"
    key = base64.b64encode(pem.encode()).decode()
    certificate = base64.b64encode(f"-----BEGIN CERTIFICATE-----\n{LINES[2]}\n".encode()).decode()
    token = "kubeconfig-user-q7xkq8m2ln5vbz7t9wpr4cjd6h"
    text = (
        f"users:\n- name: ann\n  user:\n    client-certificate-data: {certificate}\n"
        f"    client-key-data: {key}\n    token: {token}\n"
    )
    assert shown(text) == text.replace(key, "[REDACTED:private-key]").replace(token, "[REDACTED:secret]")
    assert key not in Incoming(lambda: bytes(32)).text(f"KEY_FILE={key}")
    other = "client-key-data: " + Maker(4).fill("{b200}")
    assert shown(other) == "client-key-data: [REDACTED:private-key]"


@each_row("new_line", ["\n", "\r\n", "\\n", "\\r\\n", " "])
def test_s24_a_key_of_putty_is_replaced_between_its_lines(new_line: str) -> None:
    lines = [
        "PuTTY-User-Key-File-3: ssh-rsa",
        "Private-Lines: 2",
        LINES[0],
        LINES[1][:30],
        "Private-MAC: 57ab",
    ]
    for text in (new_line.join(lines), new_line.join(lines[1:])):
        expected = text.replace(f"{LINES[0]}{new_line}{LINES[1][:30]}", "[REDACTED:private-key]")
        assert shown(text) == expected
        assert LINES[0] not in Incoming(lambda: bytes(32)).text(text)


# -- passwords of commands, and secrets of applications


@each_row(
    ("text", "clean"),
    [
        ("sshpass -p hunter2 ssh root@host", "sshpass -p [P] ssh root@host"),
        ("sshpass -phunter2 scp a b:", "sshpass -p[P] scp a b:"),
        ("sshpass -v -p 'hun ter 2' ssh host", "sshpass -v -p '[P]' ssh host"),
        ("mysql -u root -phunter2 shop", "mysql -u root -p[P] shop"),
        ("mysqldump -uroot -p'Hunter 2!' -h db", "mysqldump -uroot -p'[P]' -h db"),
        ("mariadb --host db --password=hunter -e x", "mariadb --host db --password=[P] -e x"),
        ("curl -u elastic:P@ssw0rd$1 https://es", "curl -u elastic:[P] https://es"),
        ("client_secret: kGhTqPzWvXbNmLsDrtYu", "client_secret: [S]"),
        ('{"clientSecret": "kGhTqPzWvXbNmLsDrtYu"}', '{"clientSecret": "[S]"}'),
        ("OAUTH_CLIENT_SECRET=d8f7a6c5b4e39281706f5e4d", "OAUTH_CLIENT_SECRET=[S]"),
        ('setProperty("API_TOKEN", "q7x9m2ln5vbz7t9wpr4c")', 'setProperty("API_TOKEN", "[S]")'),
        ("<apiToken>\n  q7x9m2ln5vbz7t9wpr4c\n</apiToken>", "<apiToken>\n  [S]\n</apiToken>"),
        ('<add key="DbPassword" value="q7x9-m2ln" />', '<add key="DbPassword" value="[S]" />'),
        ("API_TOKEN ?= q7x9m2ln5vbz7t9wpr4c", "API_TOKEN ?= [S]"),
        ('var apiToken string = "q7x9m2ln5vbz7t9wpr4c"', 'var apiToken string = "[S]"'),
    ],
)
def test_s24_a_secret_that_a_command_or_a_setting_gives_away_is_replaced(text: str, clean: str) -> None:
    assert shown(text) == clean.replace("[P]", "[REDACTED:password]").replace("[S]", "[REDACTED:secret]")
    assert Incoming(lambda: bytes(32)).text(text) == text, "it is a guess, and stays in the store"


@each_row(
    "text",
    [
        'sshpass -p "$PASS" ssh host',
        "sshpass -e ssh host",
        "mysql -u root -p shop",
        "mysql -u root -p$DB_PASSWORD shop",
        "mysql -P 3306 -h db --protocol=tcp",
        "docker run --name mysql -p3306:3306 mysql",
        "mysql --password=<password>",
        "client_secret: <your-client-secret>",
        "client_secret: getClientSecretFromEnvVar()",
        "client_secret: settings.client_secret",
        "clientSecret: ClientSecretCredential",
        "client_secret: ${OAUTH_CLIENT_SECRET}",
        'get("token", "default_value")',
        "<password>changeme</password>",
        '<add key="Password" value="%DB_PASSWORD%" />',
        "docker run -e SUMO_ACCESS_KEY=`etcdctl get /sumo/key1` app",
        "master-keying: x64-uwp=fail",
        "io.jsonwebtoken:jjwt-jackson-0.11.2",
        "https://example.org/2018-250-xoxo-indieweb-1.jpg",
        "video.ico-7a388b69018576d24b59331fd60aab0c.png",
    ],
)
def test_what_stands_for_a_secret_or_beside_its_name_stays(text: str) -> None:
    assert shown(text) == text
