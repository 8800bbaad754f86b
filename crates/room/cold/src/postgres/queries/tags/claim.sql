-- Moves a generation on. A tag that was never saved is left alone until everybody can know of it.
-- $1 tag  $2 the generation it has to have  $3 whether everybody can know of it
UPDATE room_tags
SET generation = generation + 1
WHERE tag = $1 AND generation = $2 AND (saved_generation > 0 OR $3)
RETURNING generation, saved_generation, saved_snap
