-- name: instruction.discover
insert into session_instruction (session_id, directory, workspace_id, path, seq)
values (:session_id, :directory, :workspace_id, :path, :seq) on conflict do nothing

-- name: instruction.take_over
-- A fork keeps the sequence at which its source discovered the file.
insert into session_instruction (session_id, directory, workspace_id, path, seq)
values (:session_id, :directory, :workspace_id, :path, :discovered_seq) on conflict do nothing

-- name: instruction.list
select path from session_instruction
where session_id = :session_id and directory = :directory and workspace_id = :workspace_id order by seq, path

-- name: instruction.of_session
-- What a Session discovered at the Location where it is.
select instruction.path from session
join session_instruction instruction on instruction.session_id = session.id
  and instruction.directory = session.directory and instruction.workspace_id = coalesce(session.workspace_id, '')
where session.id = :session_id order by instruction.seq, instruction.path
