-- What a server says about itself; other processes leave it empty. `number` names the lock that the database keeps for an
-- owner, if it keeps locks. `roots` is a JSON array of directories, or null for every directory that exists there. `room`
-- is how many Sessions more it executes, or null without a limit.
alter table owner add column number integer;
alter table owner add column name text;
alter table owner add column address text;
alter table owner add column version text;
alter table owner add column started integer;
alter table owner add column roots text;
alter table owner add column room integer;

-- With what servers identify themselves to each other. The newest is used; earlier ones are accepted for a time.
create table node_secret (
  id text primary key not null,
  secret text not null,
  time_created integer not null
) without rowid;
