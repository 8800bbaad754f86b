UPDATE tenants SET weight = ?2 WHERE num = ?1
