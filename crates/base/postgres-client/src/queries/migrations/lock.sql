-- Waits for the turn to migrate; held until the transaction ends. The number is "nagaya" in ASCII.
SELECT pg_advisory_xact_lock(121364625324385)
