-- Which events of a Session came from elsewhere: with a bundle, or with a backup that was restored. Nothing that they
-- say was asked of, answered or done by anybody here. Operational: a rebuild reads it and leaves it as it is.
create table session_import (
  session_id text not null,
  first_seq integer not null,
  last_seq integer not null,
  time integer not null,
  digest text not null,
  author text,
  primary key (session_id, first_seq)
) without rowid;
