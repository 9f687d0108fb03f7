"""OpenCode: a database, a folder of JSON files, or an export."""
