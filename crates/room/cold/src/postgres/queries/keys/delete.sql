-- Removes those of the keys that are still due, of tags that are locked; returns what went, by tag.
-- $1 tags  $2 keys  $3 expired before  $4 buried before
WITH gone AS (
    DELETE FROM room_keys AS keys
    USING unnest($1::bytea[], $2::bytea[]) AS due (tag, key)
    WHERE keys.tag = due.tag AND keys.key = due.key
      AND (keys.expires_at_ms < $3 OR keys.buried_at_ms < $4)
    RETURNING keys.tag, keys.key, keys.payload, keys.buried_at_ms
)
SELECT
    tag,
    count(payload),
    coalesce(sum(octet_length(key) + octet_length(payload)), 0)::bigint,
    count(buried_at_ms)
FROM gone
GROUP BY tag
