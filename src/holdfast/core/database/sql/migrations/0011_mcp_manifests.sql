-- What MCP servers said they offer, by the hash of its canonical bytes, and when it was a server's newest last.
-- Operational: no event made it.
create table mcp_manifest (
  hash text primary key not null,
  data blob not null,
  time_used integer not null
) without rowid;
create index mcp_manifest_age on mcp_manifest (time_used);

-- The newest manifest of each server, and the version of the protocol that it spoke. The key is the server's name and a
-- digest of its configuration.
create table mcp_server (
  key text primary key not null,
  hash text not null,
  version text not null,
  time_updated integer not null
) without rowid;
create index mcp_server_hash on mcp_server (hash);
