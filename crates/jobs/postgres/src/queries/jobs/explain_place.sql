SELECT most, taken, (
    SELECT count(*) FROM jobs_blocked
    WHERE place = $1 AND pos < (SELECT pos FROM jobs_blocked WHERE jobs_blocked.id = $2)
)
FROM jobs_place WHERE jobs_place.id = $1
