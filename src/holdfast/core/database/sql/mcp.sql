-- What MCP servers said they offer.

-- name: mcp.newest
select server.hash, server.version, cast(manifest.data as blob) as data
from mcp_server server join mcp_manifest manifest on manifest.hash = server.hash
where server.key = :key and server.time_updated >= :since

-- name: mcp.newest_hashes
select key, hash from mcp_server where key in (select value from json_each(:keys))

-- name: mcp.manifest
select cast(data as blob) as data from mcp_manifest where hash = :hash

-- name: mcp.store_manifest
insert into mcp_manifest (hash, data, time_used) values (:hash, :data, :now)
on conflict (hash) do update set time_used = excluded.time_used

-- name: mcp.use_newest
-- Before another one takes its place: other processes may still know it as the newest.
update mcp_manifest set time_used = :now where hash = (select hash from mcp_server where key = :key)

-- name: mcp.set_newest
insert into mcp_server (key, hash, version, time_updated) values (:key, :hash, :version, :now)
on conflict (key) do update set hash = excluded.hash, version = excluded.version, time_updated = excluded.time_updated

-- name: mcp.touch
-- These servers are still in use.
update mcp_server set time_updated = :now where key in (select value from json_each(:keys)) and time_updated < :before

-- name: mcp.untouched
select key from mcp_server where key in (select value from json_each(:keys)) and time_updated < :before

-- name: mcp.leftovers
-- A row if there may be something to forget.
select 1 where exists (select 1 from mcp_server where time_updated < :unknown)
  or exists (select 1 from mcp_manifest manifest where manifest.time_used < :unused
    and not exists (select 1 from mcp_server server where server.hash = manifest.hash))

-- name: mcp.forget_servers
delete from mcp_server where time_updated < :before

-- name: mcp.forget
-- Manifests from before a time that are no server's newest and that no epoch offers. Each offer is looked at once,
-- however many epochs have it.
with recursive offers (offer) as (
  select min(offer) from session_context_epoch where offer <> ''
  union all
  select (select min(epoch.offer) from session_context_epoch epoch where epoch.offer <> '' and epoch.offer > offers.offer)
  from offers where offers.offer is not null
)
delete from mcp_manifest
where time_used < :before
  and not exists (select 1 from mcp_server server where server.hash = mcp_manifest.hash)
  and not exists (select 1 from offers where instr(offers.offer, mcp_manifest.hash) > 0)
