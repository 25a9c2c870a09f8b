-- name: instruction_entry.list
select key, value from session_instruction_entry where session_id = :session_id order by key

-- name: instruction_entry.overfull
-- Whether there are as many entries as allowed, without the one of this key.
select 1 from session_instruction_entry where session_id = :session_id and key <> :key limit 1 offset :limit - 1

-- name: instruction_entry.put
insert into session_instruction_entry (session_id, key, value, seq) values (:session_id, :key, :value, :seq)
on conflict (session_id, key) do update set value = excluded.value, seq = excluded.seq

-- name: instruction_entry.remove
delete from session_instruction_entry where session_id = :session_id and key = :key
