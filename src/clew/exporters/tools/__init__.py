"""What a tool call did: one line about it, and what its tool printed."""

from clew.exporters.tools.output import Output, command_of, file_text, output_of, result_text
from clew.exporters.tools.summary import Gist, gist, plan_items, shorter_path, summary

__all__ = [
    "Gist",
    "Output",
    "command_of",
    "file_text",
    "gist",
    "output_of",
    "plan_items",
    "result_text",
    "shorter_path",
    "summary",
]
