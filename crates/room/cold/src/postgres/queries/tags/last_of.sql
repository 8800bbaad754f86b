-- The transaction that made the last of the next few tags, in the order in which they were made.
-- $1 the transaction before them  $2 how many
SELECT made_by::text
FROM (
    SELECT made_by FROM room_tags WHERE made_by > $1::text::xid8 ORDER BY made_by LIMIT $2
) AS next
ORDER BY made_by DESC
LIMIT 1
