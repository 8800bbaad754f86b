-- Jobs that wait for another number of jobs than they depend on.
SELECT b.id, b.pending, count(d.parent)
FROM blocked b LEFT JOIN dependencies d ON d.child = b.id
GROUP BY b.id
HAVING b.pending <> count(d.parent)
LIMIT 10
