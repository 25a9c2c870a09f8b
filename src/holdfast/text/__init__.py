"""Makes foreign text safe and readable: what the page, the terminal and the command line share. Knows only schema."""
