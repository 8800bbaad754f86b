-- Makes rows in the order of the tags, so that two calls wait for each other in one direction only.
-- $1 tags, each once
WITH made AS (
    INSERT INTO room_tags (tag, generation)
    SELECT wanted.tag, 1 FROM unnest($1::bytea[]) AS wanted (tag) ORDER BY wanted.tag
    ON CONFLICT (tag) DO NOTHING
    RETURNING 1
)
SELECT count(*) FROM made
