-- Permission requests, questions and forms of a Session.

-- name: request.insert
-- One that came from elsewhere is closed: nobody here was asked, and no call waits for the answer.
insert into session_request (session_id, seq, id, kind, agent, data, reply, time_created, resumable, owner)
values (:session_id, :seq, :id, :kind, :agent, :data,
  case when exists (
    select 1 from session_import origin
    where origin.session_id = :session_id and :seq between origin.first_seq and origin.last_seq) then :closed end,
  :timestamp,
  case when exists (
    select 1 from session_import origin
    where origin.session_id = :session_id and :seq between origin.first_seq and origin.last_seq) then 0 else :resumable end,
  :owner)

-- name: request.reply
-- An answer that came from elsewhere tells what happened there.
update session_request set reply = :reply where id = :id and session_id = :session_id and (reply is null or exists (
  select 1 from session_import origin
  where origin.session_id = :session_id and :seq between origin.first_seq and origin.last_seq))

-- name: request.take
update session_request set taken = 1 where id = :id and session_id = :session_id and reply is not null and taken = 0

-- name: request.of_call
-- What one tool call asked, oldest first.
select id, kind, data, reply, resumable, taken from session_request
where session_id = :session_id and coalesce(
  json_extract(data, '$.source.callID'), json_extract(data, '$.tool.callID')) = :call_id
  and coalesce(json_extract(data, '$.source.messageID'), json_extract(data, '$.tool.messageID')) = :message_id
order by seq

-- name: request.get
select session_id, id, kind, agent, data, reply, time_created from session_request where id = :id

-- name: request.owned
-- Open requests of callers that wait in a process, without a tool call.
select id, session_id, owner as owner_id, null as locked from session_request
where reply is null and resumable = 0 and owner is not null

-- name: request.open_of_tree
-- The open requests of a Session and of its descendants, wherever they are.
with recursive line (asker_id, id) as (
  select distinct session_id, session_id from session_request where reply is null
  union
  select line.asker_id, session.parent_id from line join session on session.id = line.id
  where session.parent_id is not null)
select request.session_id, request.id, request.kind, request.data, request.time_created as since
from line join session_request request on request.session_id = line.asker_id
where line.id = :session_id and request.reply is null
order by request.time_created, request.seq, request.id

-- name: request.asker
-- The Session that made an open request, if it is this Session or a descendant.
with recursive line (asker_id, id) as (
  select session_id, session_id from session_request where id = :id and reply is null
  union
  select line.asker_id, session.parent_id from line join session on session.id = line.id
  where session.parent_id is not null)
select asker_id from line where id = :session_id

-- name: form.asker
-- The Session that made a form, open or not, if it is this Session or a descendant.
with recursive line (asker_id, id) as (
  select session_id, session_id from session_request where id = :id and kind = 'form'
  union
  select line.asker_id, session.parent_id from line join session on session.id = line.id
  where session.parent_id is not null)
select asker_id from line where id = :session_id

-- name: form.held_of_call
-- The forms of one tool call, oldest first, with what their events hold for the call.
select request.id, request.taken, json_extract(asked.data, '$.held') as held
from session_request request join event asked on asked.aggregate_id = request.session_id and asked.seq = request.seq
where request.session_id = :session_id and request.kind = 'form' and request.resumable = 1
  and request.seq > coalesce((select seq from session_message where id = :message_id), -1)
  and json_extract(request.data, '$.tool.callID') = :call_id
  and json_extract(request.data, '$.tool.messageID') = :message_id
order by request.seq

-- name: form.open_of_integration
-- Open forms that ask a person to sign in, with what their events hold; of all integrations, or of one.
select request.session_id, request.data, json_extract(asked.data, '$.held') as held,
  session.directory, session.workspace_id
from session_request request join event asked on asked.aggregate_id = request.session_id and asked.seq = request.seq
join session on session.id = request.session_id
where request.reply is null and request.kind = 'form'
  and json_extract(request.data, '$.metadata.kind') = 'mcp-authorization'
  and (:integration_id is null or json_extract(request.data, '$.metadata.integrationID') = :integration_id)
order by request.time_created, request.seq, request.id

-- name: request.open_of_location
-- From the open requests to their Sessions: a directory may have any number of Sessions.
select request.session_id, request.kind, request.agent, request.data
from session_request request indexed by session_request_open cross join session on session.id = request.session_id
where request.reply is null and session.directory = :directory and session.workspace_id is :workspace_id
order by request.time_created, request.seq, request.id

-- name: request.open_of_session_there
-- The same of one Session, if it is at this Location.
select request.session_id, request.kind, request.agent, request.data
from session_request request cross join session on session.id = request.session_id
where request.session_id = :session_id and request.reply is null
  and session.directory = :directory and session.workspace_id is :workspace_id
order by request.time_created, request.seq, request.id

-- name: request.open_of_session
select kind, data from session_request
where session_id = :session_id and reply is null order by time_created, seq, id
