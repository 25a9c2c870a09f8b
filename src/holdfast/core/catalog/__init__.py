"""Which models there are, and the route to each."""
