SELECT seq_from FROM jobs WHERE id = ?1
