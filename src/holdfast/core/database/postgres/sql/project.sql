-- name: project.of_worktree
select id from project
where hashtextextended(worktree, 0) = hashtextextended(:worktree, 0) and worktree = :worktree
order by time_created desc, id limit 1
