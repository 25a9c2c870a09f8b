-- name: lease.get
select l.session_id, l.owner_id, l.token, o.beat from session_lease l left join owner o on o.id = l.owner_id
where l.session_id = :session_id

-- name: lease.take
-- Takes the lease from exactly the state that was looked at; the token only grows.
insert into session_lease (session_id, owner_id, token) values (:session_id, :owner_id, :token)
on conflict (session_id) do update set owner_id = excluded.owner_id, token = excluded.token
where session_lease.token = :seen_token

-- name: lease.release
update session_lease set owner_id = null
where session_id = :session_id and owner_id = :owner_id and token = :token

-- name: lease.fence
-- The check inside every commit made for a drain.
select 1 from session_lease where session_id = :session_id and owner_id = :owner_id and token = :token

-- name: lease.held
select l.session_id, l.owner_id, l.token, o.beat from session_lease l left join owner o on o.id = l.owner_id
where l.owner_id is not null

-- name: owner.beat
insert into owner (id, pid, beat) values (:id, :pid, :beat)
on conflict (id) do update set beat = excluded.beat

-- name: owner.forget
delete from owner where id = :id

-- name: owner.drop_leases
update session_lease set owner_id = null where owner_id = :id

-- name: control.ask
insert into session_control (id, session_id, owner_id, kind) values (:id, :session_id, :owner_id, :kind)

-- name: control.asked
select id, session_id, kind from session_control where owner_id = :owner_id

-- name: control.done
delete from session_control where id = :id

-- name: control.open
select 1 from session_control where id = :id

-- name: control.forget
delete from session_control where owner_id = :id
