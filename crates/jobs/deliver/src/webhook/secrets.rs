//! The secrets in use, kept in the store so that all servers sign alike.
//!
//! Each tenant has its own: a receiver that can verify one tenant's signatures cannot forge another's.

use nagaya_jobs::store::StoreControl;
use nagaya_jobs::{Error, TenantId};

use super::signature::Secret;

/// Secrets in use at the same time after a rotation.
const KEPT: usize = 2;

/// The secrets to sign with, newest first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Secrets(Vec<Secret>);

impl Secrets {
    /// Reads a tenant's secrets, creating the first one if there is none.
    pub async fn of(store: &dyn StoreControl, tenant: &TenantId) -> Result<Secrets, Error> {
        let first = Secret::random().reveal().into_bytes();
        let text = store.metadata_or_insert(metadata_key(tenant), first).await?;
        Secrets::read(&text)
    }

    /// Adds a new secret and keeps the previous one for receivers that have not switched yet.
    pub async fn rotate(store: &dyn StoreControl, tenant: &TenantId) -> Result<Secrets, Error> {
        let mut secrets = Secrets::of(store, tenant).await?.0;
        secrets.insert(0, Secret::random());
        secrets.truncate(KEPT);
        let secrets = Secrets(secrets);
        store.set_metadata(metadata_key(tenant), secrets.write()).await?;
        Ok(secrets)
    }

    pub fn all(&self) -> &[Secret] {
        &self.0
    }

    fn write(&self) -> Vec<u8> {
        let lines: Vec<String> = self.0.iter().map(Secret::reveal).collect();
        lines.join("\n").into_bytes()
    }

    fn read(text: &[u8]) -> Result<Secrets, Error> {
        let damaged = || Error::Damaged {
            what: "the webhook secrets".into(),
        };
        let text = std::str::from_utf8(text).map_err(|_| damaged())?;
        let secrets: Result<Vec<Secret>, _> = text.lines().map(Secret::parse).collect();
        secrets.map(Secrets).map_err(|_| damaged())
    }
}

/// Returns the metadata key of a tenant's secrets, which are stored newest first, one per line.
fn metadata_key(tenant: &TenantId) -> String {
    format!("webhook-secrets:{tenant}")
}
