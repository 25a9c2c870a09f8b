"""The Project that a directory belongs to, and working copies of it.

May import: process, filesystem."""
