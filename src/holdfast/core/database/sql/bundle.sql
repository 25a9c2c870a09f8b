-- What an export has to know beside the events.

-- name: bundle.roots
select id from session where parent_id is null order by id

-- name: bundle.sessions
select id, parent_id, fork is not null as forked
from session where id in (select value from json_each(:ids))

-- name: bundle.projects
select id, worktree, vcs from project where id in (select value from json_each(:ids)) order by id
