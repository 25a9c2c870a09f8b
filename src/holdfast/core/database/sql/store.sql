-- name: store.info
select 'SQLite' as kind, sqlite_version() as version, '' as database, '' as schema, '' as role
