"""MCP servers of a Location. What this needs of `holdfast.mcp` is imported when a server is used for the first time.

| first module to read | what it and its neighbours own |
| --- | --- |
| `seam.py` | what the parts below know of each other |
| `servers.py`, `server.py` | which servers there are, their states, when one is started |
| `connecting.py`, `server_calls.py` | a connection with its process and its log, and calls through it |
| `manifest.py`, `refreshing.py` | what a server says it offers |
| `offer.py`, `calls.py` | tools of servers in requests |
| `people.py` | what a server asks people |
| `authorizations.py` | signing in |

May import: tool and the packages below it, `holdfast.mcp`."""
