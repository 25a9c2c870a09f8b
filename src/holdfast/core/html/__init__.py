"""HTML converted to markdown or text in a bounded child process.

May import: process, web."""
