"""Sessions as MCP tools, for other agents: `holdfast mcp serve`.

Every tool is made of operations of a client; `toolbox.py` lists them. Arguments are checked before anything is done,
results are bounded, and a failure is a result that says what to do."""
