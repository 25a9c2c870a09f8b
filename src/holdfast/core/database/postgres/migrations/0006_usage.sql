-- The events that ended requests to models, by time: what a period used is found without reading anything else.
-- The condition is that of the time alone, so that no statement about events of these types takes this index.
create index event_usage on event ((case when type in (
  'session.next.step.ended.2', 'session.next.step.failed.2', 'session.next.usage.recorded.1')
  then (data::json ->> 'timestamp')::bigint end)) where (case when type in (
  'session.next.step.ended.2', 'session.next.step.failed.2', 'session.next.usage.recorded.1')
  then (data::json ->> 'timestamp')::bigint end) is not null;
