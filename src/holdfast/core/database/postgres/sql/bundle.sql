-- What an export has to know beside the events.

-- name: bundle.sessions
select id, parent_id, fork is not null as forked
from session where id = any (array(select json_array_elements_text(:ids::json)))

-- name: bundle.projects
select id, worktree, vcs from project where id = any (array(select json_array_elements_text(:ids::json))) order by id
