"""The demonstration: a small project and the Sessions that work on it, played through the runtime in this process."""
