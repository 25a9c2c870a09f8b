"""The page at `/`: its files, who is signed in, approval links, and the stream that keeps it current."""
