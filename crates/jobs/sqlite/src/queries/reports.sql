-- What workers report: attempts, progress, log lines, and reports that came too late.

-- name: insert_attempt
INSERT INTO attempts (id, number, nonce, worker, started_ms, ended_ms, end, error) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)

-- name: find_attempt
SELECT nonce, end, error FROM attempts WHERE id = ?1 AND number = ?2

-- name: attempts
SELECT number, worker, started_ms, ended_ms, end, error FROM attempts WHERE id = ?1 ORDER BY number

-- name: delete_attempts
DELETE FROM attempts WHERE id = ?1

-- name: put_progress
INSERT OR REPLACE INTO progress (id, per_mille, message, data, at_ms, event_at_ms)
VALUES (?1, ?2, ?3, ?4, ?5, ?6)

-- name: progress
SELECT per_mille, message, data, at_ms FROM progress WHERE id = ?1

-- name: progress_event_at
SELECT event_at_ms FROM progress WHERE id = ?1

-- name: delete_progress
DELETE FROM progress WHERE id = ?1

-- name: insert_log_line
INSERT INTO logs (id, number, at_ms, attempt, text) VALUES (?1, ?2, ?3, ?4, ?5)

-- name: last_log_line
SELECT coalesce(max(number), 0) FROM logs WHERE id = ?1

-- name: log_lines
SELECT number, at_ms, attempt, text FROM logs WHERE id = ?1 AND number > ?2 ORDER BY number LIMIT ?3

-- name: cut_log_lines
DELETE FROM logs WHERE id = ?1 AND number <= ?2

-- name: delete_log_lines
DELETE FROM logs WHERE id = ?1

-- name: insert_late_report
INSERT INTO late_reports (id, number, at_ms, attempt, what, why) VALUES (?1, ?2, ?3, ?4, ?5, ?6)

-- name: last_late_report
SELECT coalesce(max(number), 0) FROM late_reports WHERE id = ?1

-- name: late_reports
SELECT at_ms, attempt, what, why FROM late_reports WHERE id = ?1 ORDER BY number

-- name: cut_late_reports
DELETE FROM late_reports WHERE id = ?1 AND number <= ?2

-- name: delete_late_reports
DELETE FROM late_reports WHERE id = ?1
