UPDATE jobs_delivery d SET next_try_ms = item.at_ms
FROM unnest($1::int8[], $2::int4[], $3::int8[]) AS item (id, tries, at_ms)
WHERE d.id = item.id AND d.tries = item.tries AND d.state = 0
