"""System Context: what the model is told about its surroundings, and its epochs.

May import: permission, filesystem, web."""
