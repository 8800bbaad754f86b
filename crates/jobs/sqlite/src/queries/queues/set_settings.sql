UPDATE queues SET settings = ?2 WHERE num = ?1
