"""Gemini CLI: its files of updates, and the older whole documents."""
