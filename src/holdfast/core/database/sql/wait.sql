-- What a Session waits for.

-- name: wait.turn
-- While the model answers, with the newest report of a failed attempt at this turn. `used` is known when it has answered.
select turn.time_dispatched as dispatched, turn.message_id, turn.model, (
  select data from event
  where aggregate_id = turn.session_id and seq > turn.seq and type = 'session.next.retried.1' order by seq desc limit 1) as retried
from session_turn turn where turn.session_id = :session_id and turn.used is null

-- name: wait.tools
-- Whatever runs is of the newest answer.
select part.key, json_extract(part.data, '$.name') as name,
  coalesce(json_extract(part.data, '$.time.ran'), json_extract(part.data, '$.time.created')) as since
from session_message_part part
where part.session_id = :session_id and part.status in ('pending', 'running')
  and part.message_seq = (select newest_assistant from session where id = :session_id)
order by part.idx

-- name: wait.compaction
select time_compacting as since from session where id = :session_id and time_compacting is not null
