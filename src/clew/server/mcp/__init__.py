"""`clew mcp`: agents search, read and mark their own past. An MCP server over any store.

Needs `clew[mcp]`. The tools are functions over the library; only `factory.py` and its neighbours that speak
the protocol import the SDK. docs/explanation/what-agents-can-do.md says what a caller can do and cannot.
"""
