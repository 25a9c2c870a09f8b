"""Server and client in one process: no listener, no socket, the same routing, codecs and errors."""
