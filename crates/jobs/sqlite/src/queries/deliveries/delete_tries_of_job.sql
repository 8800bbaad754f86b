DELETE FROM delivery_tries WHERE delivery IN (SELECT id FROM deliveries WHERE job = ?1)
