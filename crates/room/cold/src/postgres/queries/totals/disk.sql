SELECT coalesce(sum(pg_total_relation_size(inhrelid)), 0)::bigint
FROM pg_inherits
WHERE inhparent IN ('room_tags'::regclass, 'room_keys'::regclass)
