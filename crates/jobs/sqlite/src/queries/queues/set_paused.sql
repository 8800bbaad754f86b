UPDATE queues SET paused = ?2 WHERE num = ?1
