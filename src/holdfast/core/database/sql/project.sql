-- name: project.ensure
insert into project (id, worktree, vcs, time_created) values (:id, :worktree, :vcs, :time_created)
on conflict (id) do nothing

-- name: project.of_worktree
select id from project where worktree = :worktree order by time_created desc limit 1
