-- The text so far of blocks that models are writing.

-- name: partial.keep
-- A piece whose commit ended in an unknown way is written again, longer.
insert into session_partial (session_id, message_id, kind, key, start, text)
values (:session_id, :message_id, :kind, :key, :start, :text)
on conflict (session_id, message_id, kind, key, start) do update set text = excluded.text

-- name: partial.end
delete from session_partial
where session_id = :session_id and message_id = :message_id and kind = :kind and key = :key

-- name: partial.forget
delete from session_partial where session_id = :id

-- name: partial.of_session
-- `place` is that of the block in its message; null if the Session has no such message any more.
select partial.message_id, partial.kind, partial.key, partial.text, part.idx as place
from session_partial partial
left join session_message m on m.id = partial.message_id and m.session_id = partial.session_id
left join session_message_part part on part.session_id = m.session_id and part.message_seq = m.seq
  and part.kind = partial.kind and part.key = partial.key
where partial.session_id = :session_id
order by partial.message_id, partial.kind, partial.key, partial.start
