-- What MCP servers said they offer.

-- name: mcp.newest
select server.hash, server.version, manifest.data from mcp_server server join mcp_manifest manifest on manifest.hash = server.hash
where server.key = :key

-- name: mcp.manifest
select data from mcp_manifest where hash = :hash

-- name: mcp.store_manifest
insert into mcp_manifest (hash, data, time_created) values (:hash, :data, :now) on conflict (hash) do nothing

-- name: mcp.set_newest
insert into mcp_server (key, hash, version, time_updated) values (:key, :hash, :version, :now)
on conflict (key) do update set hash = excluded.hash, version = excluded.version, time_updated = excluded.time_updated
