"""The operations on Sessions that a process offers, and the composition root that builds them.

May import: every other package of core; nothing in core imports it."""
