-- name: lease.get
-- `age` is how long ago the owner reported, in milliseconds; `locked` whether the database keeps its lock, null if it keeps
-- none.
select l.session_id, l.owner_id, l.token, :now - o.beat as age, o.beat, null as locked
from session_lease l left join owner o on o.id = l.owner_id where l.session_id = :session_id

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
select l.session_id, l.owner_id, l.token, :now - o.beat as age, o.beat, null as locked
from session_lease l left join owner o on o.id = l.owner_id where l.owner_id is not null

-- name: owner.beat
insert into owner (id, pid, beat, number) values (:id, :pid, :beat, :number)
on conflict (id) do update set beat = excluded.beat

-- name: owner.announce
-- What a server says about itself.
insert into owner (id, pid, beat, number, name, address, version, started, roots, room)
values (:id, :pid, :beat, :number, :name, :address, :version, :started, :roots, :room)
on conflict (id) do update set beat = excluded.beat, name = excluded.name, address = excluded.address,
  version = excluded.version, started = excluded.started, roots = excluded.roots, room = excluded.room

-- name: owner.all
-- `serves` is true for servers, `holds` for owners of leases. `age` and `locked` as in lease.get.
select id, pid, :now - beat as age, beat, null as locked, started is not null as serves,
  exists (select 1 from session_lease where owner_id = owner.id) as holds,
  name, address, version, started, roots, room
from owner order by id

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
