-- name: store.info
select 'PostgreSQL' as kind, current_setting('server_version') as version, current_database()::text as database,
  coalesce(current_schema()::text, '') as schema, current_user::text as role
