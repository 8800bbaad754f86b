//! Queues and tenants by name and by id, cached in memory.
//!
//! Another server may change the settings of a queue, so the cache is reloaded after [`CACHE_TTL`]. An unknown
//! name or id is looked up at once.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use nagaya_jobs::error::Error;
use nagaya_jobs::name::{QueueName, TenantId};
use nagaya_jobs::queue::QueueSettings;
use nagaya_jobs::record;
use nagaya_postgres_client::{Param, Session};
use parking_lot::{RwLock, RwLockReadGuard, RwLockWriteGuard};
use tokio::time::Instant;

use crate::error::damaged;
use crate::rows::{QueueRow, TenantRow};
use crate::sql::{Queries, query};

/// How long a change of a queue by another server may go unseen.
const CACHE_TTL: Duration = Duration::from_millis(500);

#[derive(Debug)]
pub(crate) struct Queue {
    pub(crate) id: i32,
    pub(crate) name: QueueName,
    pub(crate) settings: QueueSettings,
    pub(crate) paused: bool,
    pub(crate) created_ms: i64,
    pub(crate) rate_horizon_us: i64,
    pub(crate) last_claim_ms: Option<i64>,
    /// It was deleted. Its next use brings it back.
    pub(crate) is_gone: bool,
    version: i64,
}

#[derive(Debug)]
pub(crate) struct Tenant {
    pub(crate) id: i32,
    pub(crate) name: TenantId,
    pub(crate) weight: u32,
    pub(crate) created_ms: i64,
}

#[derive(Debug, Default)]
struct NameCache {
    queues: HashMap<i32, Arc<Queue>>,
    queue_ids: HashMap<QueueName, i32>,
    tenants: HashMap<i32, Arc<Tenant>>,
    tenant_ids: HashMap<TenantId, i32>,
    read_at: Option<Instant>,
}

#[derive(Debug, Default)]
pub(crate) struct Names(RwLock<NameCache>);

impl Names {
    /// Reloads the cache when it is old.
    pub(crate) async fn refresh(&self, session: &Session) -> Result<(), Error> {
        let is_fresh = |known: &NameCache| known.read_at.is_some_and(|at| at.elapsed() < CACHE_TTL);
        if is_fresh(&self.read()) {
            return Ok(());
        }
        self.reload(session).await
    }

    /// Reloads the cache.
    pub(crate) async fn reload(&self, session: &Session) -> Result<(), Error> {
        let read_at = Some(Instant::now());
        let queues = session.all(query!(queues.all), &[], QueueRow::read).await?;
        let tenants = session.all(query!(tenants.all), &[], TenantRow::read).await?;
        let queues = queues.into_iter().map(queue).collect::<Result<Vec<_>, _>>()?;
        let tenants = tenants.into_iter().map(tenant).collect::<Result<Vec<_>, _>>()?;
        let mut known = self.write();
        known.read_at = read_at;
        for queue in queues {
            known.add_queue(queue);
        }
        for tenant in tenants {
            known.add_tenant(tenant);
        }
        Ok(())
    }

    /// Finds a queue by name; creates it with the default settings when it is missing.
    pub(crate) async fn queue_or_make(
        &self,
        session: &Session,
        name: &QueueName,
        now_ms: i64,
    ) -> Result<Arc<Queue>, Error> {
        if let Some(queue) = self.known_queue(name).filter(|queue| !queue.is_gone) {
            return Ok(queue);
        }
        let settings = record::write_settings(&QueueSettings::default());
        let values: [Param<'_>; 3] = [&name.as_str(), &settings, &now_ms];
        let row = session
            .one(query!(queues.find_or_insert), &values, QueueRow::read)
            .await?;
        Ok(self.write().add_queue(queue(row)?))
    }

    pub(crate) async fn tenant_or_make(
        &self,
        session: &Session,
        name: &TenantId,
        now_ms: i64,
    ) -> Result<Arc<Tenant>, Error> {
        if let Some(tenant) = self.known_tenant(name) {
            return Ok(tenant);
        }
        let values: [Param<'_>; 2] = [&name.as_str(), &now_ms];
        let row = session
            .one(query!(tenants.find_or_insert), &values, TenantRow::read)
            .await?;
        Ok(self.write().add_tenant(tenant(row)?))
    }

    /// Finds a queue by name; reloads the cache when it is unknown.
    pub(crate) async fn find_queue(
        &self,
        session: &Session,
        name: &QueueName,
    ) -> Result<Option<Arc<Queue>>, Error> {
        if self.known_queue(name).is_none() {
            self.reload(session).await?;
        }
        Ok(self.known_queue(name))
    }

    pub(crate) async fn find_tenant(
        &self,
        session: &Session,
        name: &TenantId,
    ) -> Result<Option<Arc<Tenant>>, Error> {
        if self.known_tenant(name).is_none() {
            self.reload(session).await?;
        }
        Ok(self.known_tenant(name))
    }

    /// Finds a queue by id.
    pub(crate) async fn queue_of(&self, session: &Session, id: i32) -> Result<Arc<Queue>, Error> {
        if let Some(queue) = self.read().queues.get(&id) {
            return Ok(Arc::clone(queue));
        }
        self.reload(session).await?;
        let found = self.read().queues.get(&id).cloned();
        found.ok_or_else(|| damaged(format!("queue {id} is missing")))
    }

    pub(crate) async fn tenant_of(&self, session: &Session, id: i32) -> Result<Arc<Tenant>, Error> {
        if let Some(tenant) = self.read().tenants.get(&id) {
            return Ok(Arc::clone(tenant));
        }
        self.reload(session).await?;
        let found = self.read().tenants.get(&id).cloned();
        found.ok_or_else(|| damaged(format!("tenant {id} is missing")))
    }

    pub(crate) fn known_queue(&self, name: &QueueName) -> Option<Arc<Queue>> {
        let known = self.read();
        let id = known.queue_ids.get(name)?;
        known.queues.get(id).cloned()
    }

    pub(crate) fn known_tenant(&self, name: &TenantId) -> Option<Arc<Tenant>> {
        let known = self.read();
        let id = known.tenant_ids.get(name)?;
        known.tenants.get(id).cloned()
    }

    pub(crate) fn queues(&self) -> Vec<Arc<Queue>> {
        self.read().queues.values().cloned().collect()
    }

    pub(crate) fn tenants(&self) -> Vec<Arc<Tenant>> {
        self.read().tenants.values().cloned().collect()
    }

    fn read(&self) -> RwLockReadGuard<'_, NameCache> {
        self.0.read()
    }

    fn write(&self) -> RwLockWriteGuard<'_, NameCache> {
        self.0.write()
    }
}

impl NameCache {
    fn add_queue(&mut self, queue: Queue) -> Arc<Queue> {
        if let Some(known) = self.queues.get(&queue.id)
            && known.version > queue.version
        {
            return Arc::clone(known);
        }
        let queue = Arc::new(queue);
        self.queue_ids.insert(queue.name.clone(), queue.id);
        self.queues.insert(queue.id, Arc::clone(&queue));
        queue
    }

    fn add_tenant(&mut self, tenant: Tenant) -> Arc<Tenant> {
        let tenant = Arc::new(tenant);
        self.tenant_ids.insert(tenant.name.clone(), tenant.id);
        self.tenants.insert(tenant.id, Arc::clone(&tenant));
        tenant
    }
}

fn queue(row: QueueRow) -> Result<Queue, Error> {
    Ok(Queue {
        id: row.id,
        name: QueueName::new(&row.name)?,
        settings: record::read_settings(&row.settings)?,
        paused: row.paused,
        created_ms: row.created_ms,
        version: row.version,
        rate_horizon_us: row.rate_horizon_us,
        last_claim_ms: row.last_claim_ms,
        is_gone: row.gone,
    })
}

fn tenant(row: TenantRow) -> Result<Tenant, Error> {
    Ok(Tenant {
        id: row.id,
        name: TenantId::new(&row.name)?,
        weight: u32::try_from(row.weight).unwrap_or(1),
        created_ms: row.created_ms,
    })
}
