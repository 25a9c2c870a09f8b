-- name: conversation.inputs
select id, delivery, time_created as admitted from session_input
where id = any (array(select json_array_elements_text(:ids::json)))

-- name: conversation.places
select id, seq from session_message where id = any (array(select json_array_elements_text(:ids::json)))

-- name: conversation.marks
select seq, id, type, data, metadata from event
where aggregate_id = :session_id and seq > :after and seq < :before and type in (
  'session.next.retried.1', 'session.next.turn.abandoned.1', 'session.next.activity.suspended.1',
  'session.next.activity.ended.1', 'session.next.moved.1', 'session.next.step.failed.2',
  'session.next.compaction.started.1', 'session.next.compaction.failed.1')
order by seq desc limit :limit

-- name: conversation.requests
select id, coalesce(data::json #>> '{source,messageID}', data::json #>> '{tool,messageID}') as message_id,
  coalesce(data::json #>> '{source,callID}', data::json #>> '{tool,callID}') as call_id
from session_request where session_id = :session_id and reply is null

-- name: conversation.shell
select id from session_message
where session_id = :session_id and type = 'shell' and data::json ->> 'callID' = :call_id
order by seq desc limit 1
