"""Confining commands: what they may write, read and reach, enforced by the kernel."""
