-- name: todo.clear
delete from todo where session_id = :session_id

-- name: todo.insert
insert into todo (session_id, position, content, status, priority, time_created, time_updated, seq)
values (:session_id, :position, :content, :status, :priority, :timestamp, :timestamp, :seq)

-- name: todo.take_over
-- A fork keeps the sequence at which its source wrote the list.
insert into todo (session_id, position, content, status, priority, time_created, time_updated, seq)
values (:session_id, :position, :content, :status, :priority, :timestamp, :timestamp, :written_seq)

-- name: todo.list
select content, status, priority from todo where session_id = :session_id order by position
