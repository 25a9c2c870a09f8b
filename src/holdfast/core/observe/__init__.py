"""What an operator sees of a running process: log lines, metrics, traces. It observes commits and never changes one."""
