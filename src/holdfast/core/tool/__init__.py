"""Tools: what a tool is, which ones a turn is offered, and the built-in ones."""
