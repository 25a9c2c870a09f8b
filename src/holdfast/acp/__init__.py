"""The Agent Client Protocol on standard input and output, for editors: a client of the runtime in this process."""
