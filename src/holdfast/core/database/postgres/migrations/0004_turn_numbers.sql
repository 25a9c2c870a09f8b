-- What turns are counted by: found without reading what lies between.
create index event_turn_mark on event (aggregate_id, seq) where type in (
  'session.next.turn.dispatched.1', 'session.next.turn.abandoned.1', 'session.next.prompted.1');
