-- Tokens of callers, each with a role. `hash` is that of the secret; `projects` is a JSON list of directories.
create table access_token (
  id text primary key not null,
  name text not null unique,
  hash text not null unique,
  role text not null,
  projects text not null,
  time_created integer not null,
  time_expires integer,
  time_seen integer
) without rowid;
create index page_sign_in_credential on page_sign_in (credential, time_seen);

-- Requests that leave no event of a Session. Their ids are in the order of time.
create table audit_entry (
  id text primary key not null,
  time_created integer not null,
  who text not null,
  what text not null,
  session_id text,
  subject text
) without rowid;
create index audit_entry_time on audit_entry (time_created);
create index audit_entry_session on audit_entry (session_id, id);
