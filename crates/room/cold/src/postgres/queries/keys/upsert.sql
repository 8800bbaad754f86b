-- Writes keys of tags that are locked; one without a payload becomes a tombstone. Returns what rows there
-- were before, by tag: all parts of a statement see the tables as they were when it began.
-- $1 tags  $2 keys  $3 kinds  $4 expires_at_ms  $5 generations  $6 snaps  $7 payloads  $8 JSON  $9 now
WITH incoming AS MATERIALIZED (
    SELECT *
    FROM unnest(
        $1::bytea[], $2::bytea[], $3::smallint[], $4::bigint[], $5::bigint[], $6::bigint[], $7::bytea[], $8::text[]
    ) AS change (tag, key, kind, expires_at_ms, generation, snap, payload, decoded)
), written AS (
    INSERT INTO room_keys
        (tag, key, kind, expires_at_ms, generation, snap, buried_at_ms, payload, decoded)
    SELECT
        tag, key, kind, expires_at_ms, generation, snap,
        CASE WHEN payload IS NULL THEN $9::bigint END, payload, decoded::jsonb
    FROM incoming
    ON CONFLICT (tag, key) DO UPDATE SET
        kind = excluded.kind,
        expires_at_ms = excluded.expires_at_ms,
        generation = excluded.generation,
        snap = excluded.snap,
        buried_at_ms = excluded.buried_at_ms,
        payload = excluded.payload,
        decoded = excluded.decoded
)
SELECT
    old.tag,
    count(old.payload),
    coalesce(sum(octet_length(old.key) + octet_length(old.payload)), 0)::bigint,
    count(old.buried_at_ms)
FROM incoming
JOIN room_keys AS old ON old.tag = incoming.tag AND old.key = incoming.key
GROUP BY old.tag
