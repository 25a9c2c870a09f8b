-- What names trees of file snapshots.

-- name: snapshot.sessions
-- A page of Sessions, in the order of their ids.
select id from session where id > :after order by id limit :limit

-- name: snapshot.texts
-- The headers of answers and the staged reverts of Sessions with ids in this range. Messages of deleted Sessions that forks
-- show are read too.
select data from session_message where session_id > :after and session_id <= :through and type = 'assistant'
union all
select revert from session where id > :after and id <= :through and revert is not null
