-- name: todo.clear
delete from todo where session_id = :session_id

-- name: todo.insert
insert into todo (session_id, position, content, status, priority, time_created, time_updated)
values (:session_id, :position, :content, :status, :priority, :timestamp, :timestamp)

-- name: todo.list
select content, status, priority from todo where session_id = :session_id order by position
