-- Turns with an answer: the number of one is found without reading what lies between.
create index event_step_started on event (aggregate_id, seq) where type = 'session.next.step.started.1';
