-- name: store.info
select 'SQLite' as kind, sqlite_version() as version, '' as database, '' as schema, '' as role, 0 as superuser

-- name: store.numbers
-- Not counted one by one: at most 100,000 Sessions are, and the newest position tells how many events were ever stored.
select (select user_version from pragma_user_version) as schema, null as bytes,
  (select count(*) from (select 1 from session limit 100000)) as sessions,
  (select coalesce(max(position), 0) from event) as events

-- name: store.objects
select type, name, sql from sqlite_master
