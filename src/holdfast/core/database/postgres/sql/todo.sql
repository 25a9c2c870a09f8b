-- name: todo.insert
insert into todo (session_id, position, content, status, priority, time_created, time_updated, seq)
values ((select id from session where id = :session_id), :position, :content, :status, :priority, :timestamp, :timestamp, :seq)

-- name: todo.take_over
insert into todo (session_id, position, content, status, priority, time_created, time_updated, seq)
values (
  (select id from session where id = :session_id), :position, :content, :status, :priority, :timestamp, :timestamp,
  :written_seq)
