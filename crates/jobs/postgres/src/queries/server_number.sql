-- Two servers may draw the same number after many starts; the primary key of jobs then makes one of them draw
-- other ids.
SELECT (nextval('jobs_server_number') % $1::int8)::int4
