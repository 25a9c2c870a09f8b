"""Commands: named prompts with places for arguments."""
