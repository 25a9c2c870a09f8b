"""What a shell command is made of, which shell runs it, and what must be approved for it."""
