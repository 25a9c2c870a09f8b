-- What a page needs beside the messages themselves.

-- name: conversation.inputs
select id, delivery, time_created as admitted from session_input where id in (select value from json_each(:ids))

-- name: conversation.places
select id, seq from session_message where id in (select value from json_each(:ids))

-- name: conversation.marks
-- What happened between messages, newest first.
select seq, id, type, cast(data as blob) as data, metadata from event
where aggregate_id = :session_id and seq > :after and seq < :before and type in (
  'session.next.retried.1', 'session.next.turn.abandoned.1', 'session.next.activity.suspended.1',
  'session.next.activity.ended.1', 'session.next.moved.1', 'session.next.step.failed.2',
  'session.next.compaction.started.1', 'session.next.compaction.failed.1')
order by seq desc limit :limit

-- name: conversation.requests
-- Open requests that tool calls made.
select id, coalesce(json_extract(data, '$.source.messageID'), json_extract(data, '$.tool.messageID')) as message_id,
  coalesce(json_extract(data, '$.source.callID'), json_extract(data, '$.tool.callID')) as call_id
from session_request where session_id = :session_id and reply is null

-- name: conversation.shell
-- The newest shell message with this call.
select id from session_message indexed by session_message_shell
where session_id = :session_id and type = 'shell' and json_extract(data, '$.callID') = :call_id
order by seq desc limit 1
