-- name: request.insert
insert into session_request (session_id, seq, id, kind, agent, data, reply, time_created, resumable, owner)
values ((select session.id from session where session.id = :session_id), :seq, :id, :kind, :agent, :data,
  case when exists (
    select 1 from session_import origin
    where origin.session_id = :session_id and :seq between origin.first_seq and origin.last_seq) then :closed end,
  :timestamp,
  case when exists (
    select 1 from session_import origin
    where origin.session_id = :session_id and :seq between origin.first_seq and origin.last_seq) then 0 else :resumable end,
  :owner)

-- name: request.of_call
select id, kind, data, reply, resumable, taken from session_request
where session_id = :session_id
  and coalesce(data::json #>> '{source,callID}', data::json #>> '{tool,callID}') = :call_id
  and coalesce(data::json #>> '{source,messageID}', data::json #>> '{tool,messageID}') = :message_id
order by seq

-- name: request.owned
-- A process has a row with its number before it asks. One without has ended, on the store that the Sessions came from.
select request.id, request.session_id, request.owner as owner_id,
  case when asker.number is not null then asker.number in (
    select (classid::bigint << 32) | objid::bigint from pg_locks
    where locktype = 'advisory' and objsubid = 1 and granted
      and database = (select oid from pg_database where datname = current_database())) else false end as locked
from session_request request left join owner asker on asker.id = request.owner
where request.reply is null and request.resumable = 0 and request.owner is not null
order by request.session_id, request.seq

-- name: request.open_of_tree
-- Downwards: of all Sessions, many may ask something.
with recursive tree (id) as (
  select :session_id::text collate "C"
  union select child.id from tree cross join lateral (select id from session where parent_id = tree.id offset 0) child)
select request.session_id, request.id, request.kind, request.data, request.time_created as since
from tree cross join lateral (
  select session_id, seq, id, kind, data, time_created from session_request
  where session_id = tree.id and reply is null offset 0) request
order by request.time_created, request.seq, request.id

-- name: form.held_of_call
select request.id, request.taken, asked.data::json ->> 'held' as held
from session_request request join event asked on asked.aggregate_id = request.session_id and asked.seq = request.seq
where request.session_id = :session_id and request.kind = 'form' and request.resumable = 1
  and request.seq > coalesce((select seq from session_message where id = :message_id), -1)
  and request.data::json #>> '{tool,callID}' = :call_id
  and request.data::json #>> '{tool,messageID}' = :message_id
order by request.seq

-- name: form.open_of_integration
select request.session_id, request.data, asked.data::json ->> 'held' as held, session.directory, session.workspace_id
from session_request request join event asked on asked.aggregate_id = request.session_id and asked.seq = request.seq
join session on session.id = request.session_id
where request.reply is null and request.kind = 'form'
  and request.data::json #>> '{metadata,kind}' = 'mcp-authorization'
  and (:integration_id::text is null or request.data::json #>> '{metadata,integrationID}' = :integration_id)
order by request.time_created, request.seq, request.id

-- name: request.open_of_location
select request.session_id, request.kind, request.agent, request.data
from session_request request join session on session.id = request.session_id
where request.reply is null and hashtextextended(session.directory, 0) = hashtextextended(:directory, 0)
  and session.directory = :directory and session.workspace_id is not distinct from :workspace_id
order by request.time_created, request.seq, request.id

-- name: request.open_of_session_there
select request.session_id, request.kind, request.agent, request.data
from session_request request join session on session.id = request.session_id
where request.session_id = :session_id and request.reply is null
  and session.directory = :directory and session.workspace_id is not distinct from :workspace_id
order by request.time_created, request.seq, request.id

-- name: request.asker
with recursive line (asker_id, id) as (
  select session_id, session_id from session_request where id = :id and reply is null
  union
  select line.asker_id, above.parent_id from line
  cross join lateral (select parent_id from session where id = line.id and parent_id is not null offset 0) above)
select asker_id from line where id = :session_id

-- name: form.asker
with recursive line (asker_id, id) as (
  select session_id, session_id from session_request where id = :id and kind = 'form'
  union
  select line.asker_id, above.parent_id from line
  cross join lateral (select parent_id from session where id = line.id and parent_id is not null offset 0) above)
select asker_id from line where id = :session_id
