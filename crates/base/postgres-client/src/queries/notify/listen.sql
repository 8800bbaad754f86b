-- Channel names are quoted by the server; parameters: channels.
SELECT 'LISTEN ' || quote_ident(channel) FROM unnest($1::text[]) AS wanted (channel)
