SELECT generation FROM tags WHERE tag = ?1;
