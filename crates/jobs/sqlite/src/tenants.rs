//! Tenants, API tokens and metadata.

use nagaya_jobs::error::Error;
use nagaya_jobs::name::TenantId;
use nagaya_jobs::tenant::{ApiToken, Scopes, Tenant};
use rusqlite::{Connection, params};

use crate::rows::{TenantRow, TokenRow};
use crate::sql::{all, first, query, run, scalar};
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
    let rows = all(connection, query!(tenants.all), [], TenantRow::read)?;
    let tenant = |row: TenantRow| {
        Ok(Tenant {
            id: TenantId::new(&row.name)?,
            weight: row.weight,
            created_at_ms: row.created_ms,
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

fn api_token(row: TokenRow) -> Result<ApiToken, Error> {
    Ok(ApiToken {
        name: row.name,
        tenant: TenantId::new(&row.tenant)?,
        hash: row.hash,
        scopes: Scopes::of_bits(row.scopes),
        queues: row.queues.split_whitespace().map(str::to_owned).collect(),
        created_at_ms: row.created_ms,
        expires_at_ms: row.expires_ms,
    })
}

pub(crate) fn token(connection: &Connection, hash: &[u8; 32]) -> Result<Option<ApiToken>, Error> {
    let row = first(connection, query!(tenants.token), [hash], TokenRow::read)?;
    row.map(api_token).transpose()
}

pub(crate) fn tokens(connection: &Connection, tenant: Option<&TenantId>) -> Result<Vec<ApiToken>, Error> {
    let rows = all(
        connection,
        query!(tenants.tokens),
        [tenant.map(TenantId::as_str)],
        TokenRow::read,
    )?;
    rows.into_iter().map(api_token).collect()
}

pub(crate) fn revoke(tx: &mut WriteTransaction<'_>, tenant: &TenantId, name: &str) -> Result<bool, Error> {
    let tenant = tx.tenant_num_or_none(tenant);
    Ok(run(tx.connection, query!(tenants.revoke_token), params![tenant, name])? > 0)
}

pub(crate) fn metadata(connection: &Connection, name: &str) -> Result<Option<Vec<u8>>, Error> {
    first(connection, query!(metadata.get), [name], scalar)
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
