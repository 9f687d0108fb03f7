"""`/mcp` inside `clew serve`: the route, and the SDK behind it."""
