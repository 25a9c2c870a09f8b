-- Permission requests and questions of a Session.

-- name: request.insert
insert into session_request (session_id, seq, id, kind, agent, data, reply, time_created)
values (:session_id, :seq, :id, :kind, :agent, :data, null, :timestamp)

-- name: request.reply
update session_request set reply = :reply where id = :id and session_id = :session_id and reply is null

-- name: request.get
select session_id, id, kind, agent, data, reply, time_created from session_request where id = :id

-- name: request.open_of_session
select session_id, id, kind, agent, data, reply, time_created
from session_request where session_id = :session_id and reply is null order by seq

-- name: request.open_of_location
select request.session_id, request.id, request.kind, request.agent, request.data, request.reply, request.time_created
from session_request request join session on session.id = request.session_id
where request.reply is null and session.directory = :directory and session.workspace_id is :workspace_id
order by request.time_created, request.id
