create table access_token (
  id text collate "C" not null,
  name text collate "C" not null,
  hash text collate "C" not null,
  role text collate "C" not null,
  projects text collate "C" not null,
  time_created bigint not null,
  time_expires bigint,
  time_seen bigint,
  primary key (id),
  unique (name),
  unique (hash)
);
create index page_sign_in_credential on page_sign_in (credential, time_seen);

create table audit_entry (
  id text collate "C" not null,
  time_created bigint not null,
  who text collate "C" not null,
  what text collate "C" not null,
  session_id text collate "C",
  subject text collate "C",
  primary key (id)
);
create index audit_entry_time on audit_entry (time_created);
create index audit_entry_session on audit_entry (session_id, id);
