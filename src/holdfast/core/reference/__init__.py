"""References: further directories, local or checked out from git, that an agent may look into."""
