-- The highest number that was given to a job or to a position.
SELECT max(
    coalesce((SELECT max(id) FROM jobs), 0),
    coalesce((SELECT max(pos) FROM positions), 0),
    coalesce((SELECT max(pos) FROM held), 0)
)
