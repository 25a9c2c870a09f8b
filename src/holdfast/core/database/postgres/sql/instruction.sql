-- name: instruction.discover
insert into session_instruction (session_id, directory, workspace_id, path, seq)
values ((select id from session where id = :session_id), :directory, :workspace_id, :path, :seq) on conflict do nothing

-- name: instruction.take_over
insert into session_instruction (session_id, directory, workspace_id, path, seq)
values ((select id from session where id = :session_id), :directory, :workspace_id, :path, :discovered_seq)
on conflict do nothing

-- name: instruction_entry.put
insert into session_instruction_entry (session_id, key, value, seq)
values ((select id from session where id = :session_id), :key, :value, :seq)
on conflict (session_id, key) do update set value = excluded.value, seq = excluded.seq
