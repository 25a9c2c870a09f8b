"""The HTTP API as data, from which the server's routes, the OpenAPI document and the clients are derived."""
