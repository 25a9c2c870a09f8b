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
