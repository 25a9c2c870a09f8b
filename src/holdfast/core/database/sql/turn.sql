-- The dispatched turn that has no end yet.

-- name: turn.dispatch
insert into session_turn (session_id, seq, agent, model, attempt, message_id, time_dispatched)
values (:session_id, :seq, :agent, :model, :attempt, null, :timestamp)
on conflict (session_id) do update set seq = excluded.seq, agent = excluded.agent, model = excluded.model,
  attempt = excluded.attempt, message_id = null, time_dispatched = excluded.time_dispatched

-- name: turn.answer
update session_turn set message_id = :message_id where session_id = :session_id

-- name: turn.end
delete from session_turn where session_id = :session_id

-- name: turn.of
select session_id, seq, agent, model, attempt, message_id, time_dispatched from session_turn where session_id = :session_id

-- name: turn.open
select turn.session_id, turn.seq, turn.agent, turn.model, turn.attempt, turn.message_id, turn.time_dispatched
from session_turn turn order by turn.time_dispatched limit :limit
