"""A small HTTP/1.1 client for asyncio and for blocking code. Imports nothing else of Holdfast; see README.md."""
