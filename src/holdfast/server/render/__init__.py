"""Safe HTML from hostile text: Markdown, code, terminal output, diffs and tool calls. Pure functions with bounds."""
