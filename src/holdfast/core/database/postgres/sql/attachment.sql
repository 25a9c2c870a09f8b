-- name: attachment.list
-- Those of the Session itself first.
select message_id, idx, mime, kind, content from (
  select message_id, idx, mime, kind, content, -2 as place
  from session_attachment where session_id = :session_id
  union all
  select attached.message_id, attached.idx, attached.mime, attached.kind, attached.content, segment.after_seq
  from session_lineage segment
  join session_attachment attached on attached.session_id = segment.source_id
  join session_message m on m.id = attached.message_id and m.session_id = segment.source_id
    and m.seq > segment.after_seq and m.seq <= segment.through_seq
  where segment.session_id = :session_id and segment.source_id <> :session_id) found
order by place, message_id, idx
