-- name: disk.contents
select (select coalesce(sum(octet_length(content)), 0)::bigint from session_attachment) as attachments,
  (select count(*) from deleted_session) as deleted,
  (select coalesce(sum(octet_length(event.data)), 0)::bigint from deleted_session
    join event on event.aggregate_id = deleted_session.id) as deleted_bytes

-- name: disk.largest
select sizes.id, session.title, session.directory, sizes.events, sizes.bytes from (
  select aggregate_id as id, count(*) as events, sum(octet_length(data))::bigint as bytes from event
  group by aggregate_id order by bytes desc, id limit :limit) sizes
left join session on session.id = sizes.id order by sizes.bytes desc, sizes.id
