"""OpenCode: its database, its older files, its exports."""
