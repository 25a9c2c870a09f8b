-- name: mcp.newest
select server.hash, server.version, manifest.data as data
from mcp_server server join mcp_manifest manifest on manifest.hash = server.hash
where server.key = :key and server.time_updated >= :since

-- name: mcp.newest_hashes
select key, hash from mcp_server where key = any (array(select json_array_elements_text(:keys::json))) order by key

-- name: mcp.manifest
select data as data from mcp_manifest where hash = :hash

-- name: mcp.touch
update mcp_server set time_updated = :now
where key = any (array(select json_array_elements_text(:keys::json))) and time_updated < :before

-- name: mcp.untouched
select key from mcp_server
where key = any (array(select json_array_elements_text(:keys::json))) and time_updated < :before

-- name: mcp.forget
-- Offers are long: they are found by their hashes.
with recursive hashes (hash) as (
  (select hashtextextended(offer, 0) from session_context_epoch where offer <> ''
   order by hashtextextended(offer, 0) limit 1)
  union all
  select (
    select hashtextextended(epoch.offer, 0) from session_context_epoch epoch
    where epoch.offer <> '' and hashtextextended(epoch.offer, 0) > hashes.hash
    order by hashtextextended(epoch.offer, 0) limit 1)
  from hashes where hashes.hash is not null
), offers (offer) as (
  select (
    select epoch.offer from session_context_epoch epoch
    where epoch.offer <> '' and hashtextextended(epoch.offer, 0) = hashes.hash limit 1)
  from hashes where hashes.hash is not null
)
delete from mcp_manifest
where time_used < :before
  and not exists (select 1 from mcp_server server where server.hash = mcp_manifest.hash)
  and not exists (select 1 from offers where strpos(offers.offer, mcp_manifest.hash) > 0)
