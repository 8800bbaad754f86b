SELECT nonce, end, error FROM attempts WHERE id = ?1 AND number = ?2
