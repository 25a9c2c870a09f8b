-- Saved approvals hold for a directory and its owner. The project's id is what a repository claims to be.
-- A select in a migration is a line for the log.

select count(*) || ' saved approvals were removed: it is not known for which directory they were given'
from permission join project on project.id = permission.project_id
where project.vcs is not 'git' or project.worktree = '/'
having count(*) > 0;

-- `owner` is null for approvals of earlier versions, until the directory is opened again.
create table directory_permission (
  id text primary key not null,
  project_id text not null references project (id) on delete cascade,
  root text not null,
  owner integer,
  action text not null,
  resource text not null,
  time_created integer not null,
  time_updated integer not null,
  unique (root, owner, action, resource)
) without rowid;

insert into directory_permission (id, project_id, root, owner, action, resource, time_created, time_updated)
select permission.id, project_id, project.worktree || '/.git', null, action, resource, permission.time_created, time_updated
from permission join project on project.id = permission.project_id
where project.vcs = 'git' and project.worktree <> '/';

drop table permission;
alter table directory_permission rename to permission;
create index permission_project on permission (project_id);
