-- The text so far of blocks that models are writing, in pieces: `start` is the number of characters before. The commit
-- that ends a block removes its rows. Operational: no event made them, and a rebuild leaves them alone.
create table session_partial (
  session_id text collate "C" not null,
  message_id text collate "C" not null,
  kind text collate "C" not null,
  key text collate "C" not null,
  start bigint not null,
  text text collate "C" not null,
  primary key (session_id, message_id, kind, key, start)
);
