"""Skills: their sources, what the model is told of them, and downloaded copies.

May import: context, permission, web."""
