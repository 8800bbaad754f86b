SELECT per_mille, message, data, at_ms FROM progress WHERE id = ?1
