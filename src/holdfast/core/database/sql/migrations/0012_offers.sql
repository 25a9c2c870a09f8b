-- Which manifests of MCP servers the tools of an epoch are made of: hashes by server name, as JSON; empty for none. An
-- epoch from before has none.
alter table session_context_epoch add column offer text not null default '';
-- Finds the offers that there are without reading every epoch.
create index session_context_epoch_offer on session_context_epoch (offer) where offer <> '';
