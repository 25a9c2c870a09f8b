-- Which events of a Session came from elsewhere: with a bundle. Nothing that they say was asked of, answered or done by
-- anybody here. Operational: a rebuild reads it and leaves it as it is.
create table session_import (
  session_id text collate "C" not null,
  first_seq bigint not null,
  last_seq bigint not null,
  time bigint not null,
  digest text collate "C" not null,
  author text collate "C",
  primary key (session_id, first_seq)
);
