SELECT tries FROM deliveries WHERE id = ?1
