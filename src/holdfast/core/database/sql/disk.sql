-- What uses the disk.

-- name: disk.contents
select (select coalesce(sum(octet_length(content)), 0) from session_attachment) as attachments,
  (select count(*) from deleted_session) as deleted,
  (select coalesce(sum(octet_length(event.data)), 0) from deleted_session
    cross join event on event.aggregate_id = deleted_session.id) as deleted_bytes

-- name: disk.largest
-- By the order of the rows: an index would put the groups in order, and each row would be looked up.
select sizes.id, session.title, session.directory, sizes.events, sizes.bytes from (
  select aggregate_id as id, count(*) as events, sum(octet_length(data)) as bytes from event not indexed
  group by aggregate_id order by bytes desc, id limit :limit) sizes
left join session on session.id = sizes.id order by sizes.bytes desc, sizes.id
