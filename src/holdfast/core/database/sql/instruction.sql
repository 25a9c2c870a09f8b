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
