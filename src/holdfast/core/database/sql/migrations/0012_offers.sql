-- Which manifests of MCP servers the tools of an epoch are made of: hashes by server name, as JSON; empty for none. An
-- epoch from before has none.
alter table session_context_epoch add column offer text not null default '';
