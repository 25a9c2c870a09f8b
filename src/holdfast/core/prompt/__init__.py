"""Prompts: what their text mentions (files, references, agents), resolved before admission.

May import: tool, agent, reference."""
