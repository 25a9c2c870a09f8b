"""References: further directories, local or cloned, that an agent may read.

May import: skill, context, process."""
