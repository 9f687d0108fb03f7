"""Claude Code: JSONL transcripts, subagents, files of checkpoints."""
