"""What test clients of plain HTTP share."""

from __future__ import annotations

import ssl

NO_TLS = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
"""Trusts no certificate. A client that makes its own context reads all certificates of the machine: 25 ms."""
