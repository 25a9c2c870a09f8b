"""The command line. It talks to a client, embedded or remote, never to core."""
