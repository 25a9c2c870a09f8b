-- The access token with which a link was made: the link works no longer than that.
alter table approval_link add column token_id text collate "C";
