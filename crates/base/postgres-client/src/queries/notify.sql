-- name: listen
-- Channel names are quoted by the server; parameters: channels.
SELECT 'LISTEN ' || quote_ident(channel) FROM unnest($1::text[]) AS wanted (channel)

-- name: send
-- Parameters: channels, payloads (same length).
SELECT pg_notify(channel, payload) FROM unnest($1::text[], $2::text[]) AS note (channel, payload)
