-- name: attachment.insert
insert into session_attachment (session_id, message_id, idx, mime, kind, content)
values (:session_id, :message_id, :index, :mime, :kind, :content)

-- name: attachment.list
select message_id, idx, mime, kind, content from session_attachment where session_id = :session_id
