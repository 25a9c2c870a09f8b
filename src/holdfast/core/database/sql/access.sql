-- Tokens of callers.

-- name: access_token.insert
-- Unless there are :most already.
insert into access_token (id, name, hash, role, projects, time_created, time_expires)
select :id, :name, :hash, :role, :projects, cast(:now as bigint), cast(:expires as bigint)
where (select count(*) from access_token) < :most

-- name: access_token.expire
-- Frees the name of a token that has expired.
delete from access_token where name = :name and time_expires <= :now

-- name: access_token.named
select 1 from access_token where name = :name

-- name: access_token.find
select id, name, role, projects, time_created as created, time_expires as expires, time_seen as seen
from access_token where hash = :hash and (time_expires is null or time_expires > :now)

-- name: access_token.get
select id, name, role, projects, time_created as created, time_expires as expires, time_seen as seen
from access_token where id = :id and (time_expires is null or time_expires > :now)

-- name: access_token.by_name
select id, name, role, projects, time_created as created, time_expires as expires, time_seen as seen
from access_token where name = :name

-- name: access_token.list
select id, name, role, projects, time_created as created, time_expires as expires, time_seen as seen
from access_token order by name

-- name: access_token.see
update access_token set time_seen = :now where id = :id and (time_seen is null or time_seen < :now)

-- name: access_token.remove
delete from access_token where id = :id

-- name: audit.insert
insert into audit_entry (id, time_created, who, what, session_id, subject)
values (:id, :now, :who, :what, :session_id, :subject)

-- name: audit.trim
delete from audit_entry where time_created < :since

-- name: audit.page
select time_created as time, who, what, session_id, subject from audit_entry order by id limit :limit offset :after

-- name: audit.of_sessions
select time_created as time, who, what, session_id, subject from audit_entry
where session_id in (select value from json_each(:ids))
