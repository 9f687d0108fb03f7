"""`clew mcp install`: clients start `clew mcp`, know when to ask it, and are told of past sessions."""
