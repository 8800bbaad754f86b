-- Jobs that wait for others: how many they count against how many there are.
SELECT 'job ' || blocked.id || ' waits for ' || blocked.pending || ' jobs, ' || parents.jobs || ' are known'
FROM jobs_blocked blocked
CROSS JOIN LATERAL (SELECT count(*) AS jobs FROM jobs_dependency WHERE dependent = blocked.id) parents
WHERE blocked.pending <> parents.jobs
LIMIT 100
