create table page_instance (
  number bigint not null,
  id text collate "C" not null,
  primary key (number)
);

create table page_sign_in (
  id text collate "C" not null,
  cookie text collate "C" not null,
  key text collate "C" not null,
  credential text collate "C" not null,
  agent text collate "C" not null,
  time_created bigint not null,
  time_seen bigint not null,
  primary key (id),
  unique (cookie)
);

create table page_code (
  code text collate "C" not null,
  time_expires bigint not null,
  primary key (code)
);

create table approval_link (
  token text collate "C" not null,
  session_id text collate "C" not null,
  request_id text collate "C" not null,
  time_expires bigint not null,
  primary key (token)
);
create index approval_link_request on approval_link (request_id, time_expires);
create index approval_link_expires on approval_link (time_expires);
