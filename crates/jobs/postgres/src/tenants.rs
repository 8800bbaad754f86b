//! Tenants, API tokens and metadata.

use nagaya_jobs::error::Error;
use nagaya_jobs::name::TenantId;
use nagaya_jobs::tenant::{ApiToken, Scopes, Tenant};
use nagaya_postgres_client::Session;

use crate::error::damaged;
use crate::rows::TokenRow;
use crate::sql::{Queries, query};
use crate::store::Inner;

impl Inner {
    pub(crate) async fn put_tenant(&self, tenant: TenantId, weight: u32) -> Result<(), Error> {
        let session = self.cool().await?;
        let now_ms = self.time.now(&session).await?;
        let weight = i32::try_from(weight.max(1)).unwrap_or(i32::MAX);
        session
            .run(query!(tenants.put), &[&tenant.as_str(), &weight, &now_ms])
            .await?;
        self.names.reload(&session).await
    }

    pub(crate) async fn list_tenants(&self) -> Result<Vec<Tenant>, Error> {
        let session = self.cool().await?;
        self.names.reload(&session).await?;
        let mut tenants: Vec<Tenant> = self
            .names
            .tenants()
            .iter()
            .map(|one| Tenant {
                id: one.name.clone(),
                weight: one.weight,
                created_at_ms: one.created_ms,
            })
            .collect();
        tenants.sort_by(|one, other| one.id.cmp(&other.id));
        Ok(tenants)
    }

    pub(crate) async fn put_token(&self, token: ApiToken) -> Result<(), Error> {
        let session = self.cool().await?;
        let now_ms = self.time.now(&session).await?;
        let tenant = self.names.tenant_or_make(&session, &token.tenant, now_ms).await?;
        session
            .run(
                query!(tenants.put_token),
                &[
                    &token.hash.as_slice(),
                    &tenant.id,
                    &token.name,
                    &token.scopes.bits(),
                    &token.queues,
                    &token.created_at_ms,
                    &token.expires_at_ms,
                ],
            )
            .await?;
        Ok(())
    }

    pub(crate) async fn token(&self, hash: [u8; 32]) -> Result<Option<ApiToken>, Error> {
        let session = self.cool().await?;
        let row = session
            .first(query!(tenants.token), &[&hash.as_slice()], TokenRow::read)
            .await?;
        match row {
            None => Ok(None),
            Some(row) => Ok(Some(self.api_token(&session, row).await?)),
        }
    }

    pub(crate) async fn tokens(&self, tenant: Option<TenantId>) -> Result<Vec<ApiToken>, Error> {
        let session = self.cool().await?;
        let tenant = tenant.as_ref().map(TenantId::as_str);
        let rows = session
            .all(query!(tenants.tokens), &[&tenant], TokenRow::read)
            .await?;
        let mut tokens = Vec::with_capacity(rows.len());
        for row in rows {
            tokens.push(self.api_token(&session, row).await?);
        }
        Ok(tokens)
    }

    pub(crate) async fn revoke_token(&self, tenant: TenantId, name: String) -> Result<bool, Error> {
        let session = self.cool().await?;
        let gone = session
            .run(query!(tenants.revoke_token), &[&tenant.as_str(), &name])
            .await?;
        Ok(gone > 0)
    }

    pub(crate) async fn metadata(&self, name: String) -> Result<Option<Vec<u8>>, Error> {
        let session = self.cool().await?;
        session.first_scalar(query!(metadata.get), &[&name]).await
    }

    pub(crate) async fn set_metadata(&self, name: String, value: Vec<u8>) -> Result<(), Error> {
        let session = self.cool().await?;
        session.run(query!(metadata.set), &[&name, &value]).await?;
        Ok(())
    }

    pub(crate) async fn metadata_or_insert(&self, name: String, value: Vec<u8>) -> Result<Vec<u8>, Error> {
        let session = self.cool().await?;
        session
            .scalar(query!(metadata.get_or_set), &[&name, &value])
            .await
    }

    async fn api_token(&self, session: &Session, row: TokenRow) -> Result<ApiToken, Error> {
        let hash = row.hash.as_slice();
        Ok(ApiToken {
            hash: hash.try_into().map_err(|_| damaged("a token's hash"))?,
            tenant: self.names.tenant_of(session, row.tenant).await?.name.clone(),
            name: row.name,
            scopes: Scopes::of_bits(row.scopes),
            queues: row.queues,
            created_at_ms: row.created_ms,
            expires_at_ms: row.expires_ms,
        })
    }
}
