-- The text so far of blocks that models are writing, in pieces: `start` is the number of characters before. The commit
-- that ends a block removes its rows. Operational: no event made them, and a rebuild leaves them alone.
create table session_partial (
  session_id text not null,
  message_id text not null,
  kind text not null,
  key text not null,
  start integer not null,
  text text not null,
  primary key (session_id, message_id, kind, key, start)
);
