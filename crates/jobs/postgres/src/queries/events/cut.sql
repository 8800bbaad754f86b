DELETE FROM jobs_event WHERE seq <= $1
