-- Parameters: channels, payloads (same length).
SELECT pg_notify(channel, payload) FROM unnest($1::text[], $2::text[]) AS note (channel, payload)
