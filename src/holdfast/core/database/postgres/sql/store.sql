-- name: store.info
select 'PostgreSQL' as kind, current_setting('server_version') as version, current_database()::text as database,
  coalesce(current_schema()::text, '') as schema, current_user::text as role,
  coalesce((select rolsuper from pg_roles where rolname = current_user), false)::int as superuser

-- name: store.numbers
-- Up to 100,000 rows are counted; above that it is the server's own estimate.
with estimate as (
  select (select reltuples from pg_class where oid = to_regclass('session'))::bigint as sessions,
    (select reltuples from pg_class where oid = to_regclass('event'))::bigint as events)
select (select max(version) from holdfast_schema) as schema,
  (select sum(pg_total_relation_size(oid)) from pg_class
   where relnamespace = current_schema()::regnamespace and relkind = 'r')::bigint as bytes,
  case when estimate.sessions > 100000 then estimate.sessions
    else (select count(*) from (select 1 from session limit 100000) counted) end as sessions,
  case when estimate.events > 100000 then estimate.events
    else (select count(*) from (select 1 from event limit 100000) counted) end as events
from estimate

-- name: store.objects
-- The tables of a server belong to a role, which names who may change them; a file may come from anybody.
select '' as type, '' as name, '' as sql where false
