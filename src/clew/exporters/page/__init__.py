"""The parts of an HTML page: untrusted text, code, terminals, diffs, tool calls, and the frame around."""
