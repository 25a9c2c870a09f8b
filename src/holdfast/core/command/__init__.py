"""Commands: named prompt templates with arguments.

May import: tool, skill, config."""
