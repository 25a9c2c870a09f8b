"""The HTTP API as data. The server hosts it and the clients are generated from it; nothing is written twice."""
