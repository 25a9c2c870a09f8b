-- Leases and owners. Times of owners are the server's: the clocks of nodes differ. An owner lives as long as the server keeps
-- its lock.

-- name: lease.get
select l.session_id, l.owner_id, l.token, (extract(epoch from clock_timestamp()) * 1000)::bigint - o.beat as age, o.beat,
  holdfast_locked(o.number) as locked
from session_lease l left join owner o on o.id = l.owner_id where l.session_id = :session_id

-- name: lease.held
select l.session_id, l.owner_id, l.token, (extract(epoch from clock_timestamp()) * 1000)::bigint - o.beat as age, o.beat,
  holdfast_locked(o.number) as locked
from session_lease l left join owner o on o.id = l.owner_id where l.owner_id is not null order by l.session_id

-- name: owner.beat
-- A fresh beat stays as it is, and its row is not locked: every first commit of a drain has this statement.
insert into owner (id, pid, beat, number)
select :id, :pid::bigint, (extract(epoch from clock_timestamp()) * 1000)::bigint, :number::bigint
where not exists (
  select 1 from owner where id = :id and beat > (extract(epoch from clock_timestamp()) * 1000)::bigint - 1000)
on conflict (id) do update set beat = excluded.beat

-- name: owner.announce
insert into owner (id, pid, beat, number, name, address, version, started, roots, room)
values (:id, :pid, (extract(epoch from clock_timestamp()) * 1000)::bigint, :number, :name, :address, :version, :started,
  :roots, :room)
on conflict (id) do update set beat = excluded.beat, name = excluded.name, address = excluded.address,
  version = excluded.version, started = excluded.started, roots = excluded.roots, room = excluded.room

-- name: owner.all
select id, pid, (extract(epoch from clock_timestamp()) * 1000)::bigint - beat as age, beat,
  holdfast_locked(number) as locked,
  started is not null as serves, exists (select 1 from session_lease where owner_id = owner.id) as holds,
  name, address, version, started, roots, room
from owner order by id

-- name: control.asked
select id, session_id, kind from session_control where owner_id = :owner_id order by id
