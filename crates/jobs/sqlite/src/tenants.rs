//! Tenants, API tokens and facts.

use nagaya_jobs::error::Error;
use nagaya_jobs::name::TenantId;
use nagaya_jobs::tenant::{ApiToken, Scopes, Tenant};
use rusqlite::{Connection, Row, params};

use crate::sql::{all, first, query, run};
use crate::write_transaction::WriteTransaction;

pub(crate) fn put(tx: &mut WriteTransaction<'_>, name: &TenantId, weight: u32) -> Result<(), Error> {
    let weight = weight.max(1);
    let num = tx.tenant_num(name)?;
    run(tx.connection, query!(tenants.set_weight), params![num, weight])?;
    if let Some(tenant) = tx.memory.tenants.get_mut(&num) {
        tenant.weight = weight;
    }
    Ok(())
}

pub(crate) fn list(connection: &Connection) -> Result<Vec<Tenant>, Error> {
    let rows = all(connection, query!(tenants.all), [], |row| {
        Ok((row.get::<_, String>(1)?, row.get(2)?, row.get(3)?))
    })?;
    let tenant = |(name, weight, created_at_ms): (String, u32, i64)| {
        Ok(Tenant {
            id: TenantId::new(&name)?,
            weight,
            created_at_ms,
        })
    };
    rows.into_iter().map(tenant).collect()
}

pub(crate) fn put_token(tx: &mut WriteTransaction<'_>, token: &ApiToken) -> Result<(), Error> {
    let tenant = tx.tenant_num(&token.tenant)?;
    let values = params![
        tenant,
        token.name,
        token.hash,
        token.scopes.bits(),
        token.queues.join(" "),
        token.created_at_ms,
        token.expires_at_ms,
    ];
    run(tx.connection, query!(tenants.put_token), values)?;
    Ok(())
}

struct Raw {
    name: String,
    tenant: String,
    hash: [u8; 32],
    scopes: i16,
    queues: String,
    created_at_ms: i64,
    expires_at_ms: Option<i64>,
}

impl Raw {
    fn read(row: &Row<'_>) -> rusqlite::Result<Raw> {
        Ok(Raw {
            name: row.get(0)?,
            tenant: row.get(1)?,
            hash: row.get(2)?,
            scopes: row.get(3)?,
            queues: row.get(4)?,
            created_at_ms: row.get(5)?,
            expires_at_ms: row.get(6)?,
        })
    }

    fn token(self) -> Result<ApiToken, Error> {
        Ok(ApiToken {
            name: self.name,
            tenant: TenantId::new(&self.tenant)?,
            hash: self.hash,
            scopes: Scopes::of_bits(self.scopes),
            queues: self.queues.split_whitespace().map(str::to_owned).collect(),
            created_at_ms: self.created_at_ms,
            expires_at_ms: self.expires_at_ms,
        })
    }
}

pub(crate) fn token(connection: &Connection, hash: &[u8; 32]) -> Result<Option<ApiToken>, Error> {
    let raw = first(connection, query!(tenants.token), [hash], Raw::read)?;
    raw.map(Raw::token).transpose()
}

pub(crate) fn tokens(connection: &Connection, tenant: Option<&TenantId>) -> Result<Vec<ApiToken>, Error> {
    let rows = all(
        connection,
        query!(tenants.tokens),
        [tenant.map(TenantId::as_str)],
        Raw::read,
    )?;
    rows.into_iter().map(Raw::token).collect()
}

pub(crate) fn revoke(tx: &mut WriteTransaction<'_>, tenant: &TenantId, name: &str) -> Result<bool, Error> {
    let tenant = tx.tenant_num_or_none(tenant);
    Ok(run(tx.connection, query!(tenants.revoke_token), params![tenant, name])? > 0)
}

pub(crate) fn metadata(connection: &Connection, name: &str) -> Result<Option<Vec<u8>>, Error> {
    Ok(first(connection, query!(metadata.get), [name], |row| row.get(0))?)
}

pub(crate) fn set_metadata(tx: &WriteTransaction<'_>, name: &str, value: &[u8]) -> Result<(), Error> {
    run(tx.connection, query!(metadata.set), params![name, value])?;
    Ok(())
}

pub(crate) fn metadata_or_insert(
    tx: &WriteTransaction<'_>,
    name: &str,
    value: &[u8],
) -> Result<Vec<u8>, Error> {
    if let Some(there) = metadata(tx.connection, name)? {
        return Ok(there);
    }
    set_metadata(tx, name, value)?;
    Ok(value.to_vec())
}
