-- name: attachment.insert
insert into session_attachment (session_id, message_id, idx, mime, kind, content)
values (:session_id, :message_id, :index, :mime, :kind, :content)

-- name: attachment.any
select 1 from session_attachment where session_id = :session_id limit 1

-- name: attachment.list
-- Of the Session's own prompts, also of pending ones, and of the messages that it shares.
select message_id, idx, mime, kind, content from session_attachment where session_id = :session_id
union all
select attached.message_id, attached.idx, attached.mime, attached.kind, attached.content
from session_lineage segment
join session_attachment attached on attached.session_id = segment.source_id
join session_message m on m.id = attached.message_id and m.session_id = segment.source_id
  and m.seq > segment.after_seq and m.seq <= segment.through_seq
where segment.session_id = :session_id and segment.source_id <> :session_id
