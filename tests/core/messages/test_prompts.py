"""What of a prompt the person wrote, and what the agent put around it."""

from __future__ import annotations

from clew.core.messages.dialects import prompt_of
from clew.core.messages.text import own_words
from clew.model import Json
from tests.support.rows import each_row

DETAILS = "<environment_details>\n# Files\na.py\n</environment_details>"


@each_row(
    ("text", "words"),
    [
        ("plain", "plain"),
        ("<b>bold</b> & <task", "<b>bold</b> & <task"),
        ("<task>\nfix it\n</task>", "fix it"),
        (f"<task>\nfix it\n</task>\n{DETAILS}", "fix it"),
        (f"{DETAILS}\nfix it", "fix it"),
        (f"fix{DETAILS} it{DETAILS}", "fix it"),
        (DETAILS, ""),
        ("<environment_details>\nnever closed </task>", "<environment_details>\nnever closed </task>"),
        ("<file_contents>mine</file_contents>", "<file_contents>mine</file_contents>"),
        ('see a.py\n<file_content path="a.py">\nx = 1\n</file_content>', "see a.py"),
        ("<system-reminder>be brief</system-reminder>\nfix it", "fix it"),
        ("It was denied, with this feedback:\n<feedback>\nuse b\n</feedback>", "use b"),
        ("[TASK RESUMPTION] ...\n<user_message>\ngo on\n</user_message>\n" + DETAILS, "go on"),
        ("<answer>\none\n</answer>\n<feedback>\ntwo\n</feedback>", "one\n\ntwo"),
        ("what does <answer>x</answer> mean?", "what does <answer>x</answer> mean?"),
        ("<answer>x</answer>", "x"),
        ("<task>never closed", "<task>never closed"),
        ("<ide_opened_file>The user opened a.py</ide_opened_file>\nfix it", "fix it"),
        (
            "# Context from my IDE setup:\n\n## Open tabs:\n- a.py\n\n## My request for Codex:\nfix it\n",
            "fix it",
        ),
    ],
)
def test_the_words_of_the_person_are_what_is_left(text: str, words: str) -> None:
    assert own_words(text) == words
    assert prompt_of({"role": "user", "content": text}) == words


@each_row("result", ["denied\n<feedback>\nuse b\n</feedback>", "ok"])
def test_a_remark_inside_the_result_of_a_tool_is_found(result: str) -> None:
    for content in (result, [{"type": "text", "text": result}]):
        block: Json = {"type": "tool_result", "tool_use_id": "c", "content": content}
        message: dict[str, Json] = {"role": "user", "content": [block, {"type": "text", "text": DETAILS}]}
        assert prompt_of(message) == ("use b" if "feedback" in result else "")


@each_row("many", ["<environment_details>", "<environment_details", "<task>", "<task>\n</task>"])
def test_a_text_made_of_tags_is_looked_through_once_for_each(many: str) -> None:
    """With a search from every tag to the end of the text this would not come to an end."""
    text = "</" + many * 200_000
    assert len(own_words(text)) <= len(text)
