-- name: lease.held
select l.session_id, l.owner_id, l.token, o.beat from session_lease l left join owner o on o.id = l.owner_id
where l.owner_id is not null order by l.session_id

-- name: owner.beat
-- A fresh beat stays as it is, and its row is not locked: every first commit of a drain has this statement.
insert into owner (id, pid, beat) select :id, :pid, :beat::bigint
where not exists (select 1 from owner where id = :id and beat > :beat::bigint - 2000)
on conflict (id) do update set beat = excluded.beat

-- name: control.asked
select id, session_id, kind from session_control where owner_id = :owner_id order by id
