"""MCP servers of a Location. What this needs of `holdfast.mcp` is imported when a server is used for the first time.

May import: tool and the packages below it, `holdfast.mcp`."""
