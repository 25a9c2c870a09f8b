"""Parsing shell commands, choosing a shell, and what a command needs approved.

May import: process, filesystem."""
