UPDATE tags SET generation = generation + 1 WHERE tag = ?1 AND generation = ?2;
