DELETE FROM deliveries WHERE job = ?1
