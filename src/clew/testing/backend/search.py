"""Search: a message is found by every part of it that people remember, and by nothing else."""

from __future__ import annotations

from typing import Any

import pytest

from clew.errors import InvalidQueryError
from clew.model import Retention
from clew.model.search import Hit, SearchPage
from clew.session import Session
from clew.store import Store
from clew.testing.backend.base import Conformance, assistant, calling, result, say, system, user
from clew.testing.rows import each_row, named


def positions(page: SearchPage) -> list[int]:
    return [hit.position for hit in page]


def marked(hit: Hit) -> list[str]:
    return [hit.snippet[start:end] for start, end in hit.marks]


def grep(path: str) -> dict[str, Any]:
    """An assistant's turn that says something and calls a tool."""
    call = {
        "id": "c1",
        "type": "function",
        "function": {"name": "grep", "arguments": f'{{"path": "{path}"}}'},
    }
    return {"role": "assistant", "content": "I look there", "tool_calls": [call]}


class SearchConformance(Conformance):
    """`search` on any backend gives the same answers."""

    def test_what_a_rule_removed_is_not_found_any_more(self, store: Store, s: Session) -> None:
        """P18: neither its message nor its words; the others are."""
        say(s, "the first needle", "the second needle", "the last needle")
        assert positions(store.search("needle")) == [2, 1, 0]
        store.set_retention(Retention(max_messages=1))
        store.sweep()

        assert positions(store.search("needle")) == [2]
        assert positions(store.search("first")) == []

    # -- what a query means

    def test_a_query_is_words_phrases_prefixes_and_exclusions(self, store: Store, s: Session) -> None:
        """All words, in any order; case and accents make no difference; nothing else is an operator."""
        say(s, "The login page returns 500", "something else", "Login: done", "at the Café")

        for query, found in (
            ("login", [2, 0]),
            ("LOGIN", [2, 0]),
            ("login 500", [0]),
            ("500 login", [0]),
            ('"login page"', [0]),
            ('"page login"', []),
            ("log*", [2, 0]),
            ("log", []),
            ("login -page", [2]),
            ('login -"the login"', [2]),
            ("login -pag*", [2]),
            ('"login pa"*', [0]),
            ("cafe", [3]),
            ("CAFÉ", [3]),
            ("cafe\u0301", [3]),
            ("login OR cafe", []),
            ("nothing", []),
            ("-page -nobody login", [2]),
        ):
            with named(query):
                assert positions(store.search(query)) == found

    def test_identifiers_are_found_by_part(self, store: Store, s: Session) -> None:
        """Camel case, snake case, dotted and slashed paths; in whatever case they are typed."""
        say(s, "getUserName of HTTPServer in src/core/query.py: max_tokens, sha256", "another thing")

        for query in (
            "user", "name", "userName", "getUserName", "getusername", "GETUSERNAME", "getUser*", "getuser*",
            '"user name"', "http", "HTTPServer", "server", "core", "core/query.py", "query.py", "max_tokens",
            "max", "tokens", "sha256",
        ):  # fmt: skip
            with named(query):
                assert positions(store.search(query)) == [0]

    def test_scripts_without_spaces_are_found_by_part(self, store: Store, s: Session) -> None:
        """Any run of their letters is found, and not the same letters elsewhere."""
        say(s, "用户登录失败了 ログイン 로그인하세요 แผนที่", "败失录登 ンイグロ 하인")

        for query in ("登录", "录失", "失败", "登录失败", "ログ", "グイン", "인하", "แผน"):
            with named(query):
                assert positions(store.search(query)) == [0]

    @each_row(
        "query",
        [
            '"', '""', "*", "-", "-a", "()", "'", "\0", "  ", "", "🙂", '-"a b"', "...", "\ud800",
            " ".join(f"w{number}" for number in range(100)), "x" * 10_001,
        ],
        ids=ascii,
    )  # fmt: skip
    def test_what_is_no_query_is_refused(self, store: Store, s: Session, query: str) -> None:
        """With our error, whatever the engine below makes of it."""
        say(s, "a")
        with pytest.raises(InvalidQueryError):
            store.search(query)

    def test_i23_s02_operators_and_quotes_are_text(self, store: Store, s: Session) -> None:
        """Nothing that is typed reaches the engine as anything but words."""
        say(s, "something", "a b")

        for query in (
            "NEAR(a b, 2)", "said : a", "{said tool}: a", "a AND", "OR a", "NOT a", "^a", "a + b", "a\0b",
            '"a" "', "'; DROP TABLE sessions; --", "a:*", "a|b & !c", "\\", "%a_", "a <-> b", "(((a",
            '"a"*"b"', "é" * 500, "x" * 5000, "a\ud800b", "٣", "ﷺ", "İ",
        ):  # fmt: skip
            try:
                found = positions(store.search(query))
            except InvalidQueryError:
                found = []
            with named(ascii(query)):
                assert found in ([], [1])
        assert positions(store.search("something")) == [0]

    def test_a_message_is_found_by_its_own_text(self, store: Store, s: Session) -> None:
        """Odd texts too: what they consist of finds them."""
        texts = [
            "naïve Straße",
            "x" * 300 + " y",
            "v1.2.3-rc4",
            "a\0b",
            "ǅ ﬁn",
            "__init__",
            "İx",
            "①",
            "ｆｕｌｌ",
        ]
        say(s, *texts)

        for position, text in enumerate(texts):
            assert position in positions(store.search(text)), text

    # -- what is searched

    def test_what_tools_were_asked_and_answered_is_found_when_asked_for(
        self, store: Store, s: Session
    ) -> None:
        """Their names, arguments and results."""
        s.append(user("where"), grep("src/deep.py"), result("c1", "deep thoughts"), assistant("not deeper"))

        assert positions(store.search("deep")) == []
        assert positions(store.search("deep", tools=True)) == [2, 1]
        assert positions(store.search("grep", tools=True)) == [1]
        assert positions(store.search("look deep", tools=True)) == [1]
        assert positions(store.search('"there grep"', tools=True)) == []
        assert [hit.in_tool for hit in store.search("deep", tools=True)] == [True, True]
        assert [hit.in_tool for hit in store.search("look", tools=True)] == [False]

    def test_dialects_are_read(self, store: Store, s: Session) -> None:
        """Anthropic's blocks, Gemini's parts, items of the responses API; reasoning is not searched."""
        s.append(
            {"role": "assistant", "content": [
                {"type": "thinking", "thinking": "secretly", "signature": "sig"},
                {"type": "text", "text": "apple"},
                {"type": "tool_use", "id": "t1", "name": "peel", "input": {"fruit": "banana"}},
            ]},
            {"role": "user", "content": [
                {"type": "tool_result", "tool_use_id": "t1", "content": [{"type": "text", "text": "cherry"}]},
            ]},
            {"role": "model", "parts": [
                {"text": "damson"}, {"functionCall": {"name": "f", "args": {"x": "elder"}}},
            ]},
            {"role": "user", "parts": [{"functionResponse": {"name": "f", "response": {"y": "fig"}}}]},
            {"type": "function_call", "call_id": "r1", "name": "g", "arguments": '{"z": "grape"}'},
            {"type": "function_call_output", "call_id": "r1", "output": "hazel"},
            {"odd": ["shape"]},
        )  # fmt: skip
        said = {"apple": 0, "damson": 2}
        in_tools = {"peel": 0, "banana": 0, "cherry": 1, "elder": 2, "fig": 3, "grape": 4, "hazel": 5}

        for word, position in said.items():
            assert positions(store.search(word)) == [position], word
        for word, position in in_tools.items():
            assert positions(store.search(word)) == [], word
            assert positions(store.search(word, tools=True)) == [position], word
        for word in ("secretly", "sig", "t1", "r1", "shape"):
            assert positions(store.search(word, tools=True)) == [], word

    def test_a_role_is_who_spoke(self, store: Store, s: Session) -> None:
        """A tool's results in a user's message are the tool's."""
        answer = {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t", "content": "word"}]}
        s.append(system("word"), user("word"), assistant("word"), calling("c"), result("c", "word"), answer)

        assert positions(store.search("word", role="system")) == [0]
        assert positions(store.search("word", role="user")) == [1]
        assert positions(store.search("word", role="assistant")) == [2]
        assert positions(store.search("word", role="tool")) == [5, 4]
        assert [hit.role for hit in store.search("word", tools=True)] == [
            "tool", "tool", "assistant", "user", "system"
        ]  # fmt: skip

    def test_marks_are_no_messages(self, store: Store, s: Session) -> None:
        """A compaction says again what was said; the messages that it stands for are still found."""
        say(s, "the original words")
        s.compact("a summary of the original words")

        assert positions(store.search("original")) == [0]
        assert positions(store.search("summary")) == []

    def test_a_long_text_is_found_to_its_end(self, store: Store, s: Session) -> None:
        """Whatever the limits of an index are: more than a megabyte, many words, and many different ones."""
        different = " ".join(f"w{number:017}" for number in range(60_000))
        long = f"first {different} {'word ' * 17_000} lastly getUserName"
        say(s, long, "short")

        for query in (
            "first lastly",
            '"lastly get"',
            "getusername first",
            '"word lastly"',
            "lastl*",
            f"w{59_999:017}",
        ):
            assert positions(store.search(query)) == [0], query
        assert positions(store.search("first -lastly")) == []
        assert positions(store.search('"first lastly"')) == []

    # -- what is told of a hit

    def test_a_hit_says_where_it_is(self, store: Store, s: Session) -> None:
        """Enough to show it with its neighbours."""
        say(s, "before", "the word is here", "behind")
        s.update(title="A title")
        [hit] = store.search("word")
        entry = list(s.entries())[1]

        assert (hit.session, hit.title, hit.entry_id, hit.position) == ("s", "A title", entry.id, 1)
        assert (hit.role, hit.at, hit.on_path) == ("user", entry.time, True)
        assert (hit.snippet, hit.marks) == ("the word is here", ((4, 8),))

    def test_a_snippet_is_the_text_around_the_hit(self, store: Store, s: Session) -> None:
        """As it was written, about thirty words, every hit in it marked."""
        say(
            s, "filler " * 200 + "here are Two  words,\nand two more: getUserName 登录失败 " + "filler " * 200
        )

        [hit] = store.search("two")
        assert marked(hit) == ["Two", "two"]
        assert "are Two  words,\nand two more" in hit.snippet
        assert 20 <= len(hit.snippet.split()) <= 40
        assert marked(store.search('"two more"')[0]) == ["two more"]
        assert marked(store.search("userName")[0]) == ["UserName"]
        assert marked(store.search("getusername")[0]) == ["getUserName"]
        assert marked(store.search("登录 mor*")[0]) == ["more", "登录"]

    def test_marks_count_characters_as_python_does(self, store: Store, s: Session) -> None:
        """Whatever comes before them: accents, emoji, controls."""
        say(s, "\x1b[31m🙂👩‍🚀 é e\u0301 word \u202e word")

        [hit] = store.search("word")

        assert marked(hit) == ["word", "word"]
