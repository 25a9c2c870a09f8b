-- What an export has to know beside the events.

-- name: bundle.roots
select id from session where parent_id is null order by id

-- name: bundle.sessions
select id, parent_id, fork is not null as forked
from session where id in (select value from json_each(:ids))

-- name: bundle.projects
select id, worktree, vcs from project where id in (select value from json_each(:ids)) order by id

-- name: import.record
-- That these events come from elsewhere; `last_seq` grows with the groups of an import.
insert into session_import (session_id, first_seq, last_seq, time, digest, author)
values (:session_id, :first_seq, :last_seq, :time, :digest, :author)
on conflict (session_id, first_seq) do update set last_seq = excluded.last_seq

-- name: import.of_session
select first_seq, last_seq, time, digest, author from session_import where session_id = :session_id order by first_seq

-- name: import.forget
delete from session_import where session_id = :session_id and first_seq >= :first_seq
