-- The events that ended requests to models, by time: what a period used is found without reading anything else.
create index event_usage on event (json_extract(data, '$.timestamp')) where type in (
  'session.next.step.ended.2', 'session.next.step.failed.2', 'session.next.usage.recorded.1');
