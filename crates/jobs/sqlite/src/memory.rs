//! The state that the writer caches in memory: names, settings, counters and the fair rounds.
//!
//! All of it can be read from the file. It changes together with the open transaction, so it is reloaded after
//! a rollback.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;

use nagaya_jobs::error::Error;
use nagaya_jobs::event::EventKind;
use nagaya_jobs::fair::FairRound;
use nagaya_jobs::id::{IdMaker, JobId};
use nagaya_jobs::name::{QueueName, TenantId};
use nagaya_jobs::queue::{Depth, QueueSettings, Throughput};
use nagaya_jobs::record;
use rusqlite::Connection;

use crate::rows::{CountersRow, QueueRow, TenantRow};
use crate::sql::{all, first, query, scalar};

/// The metadata key of the position up to which the log was trimmed.
pub(crate) const TRIMMED_METADATA: &str = "log-trimmed";

pub(crate) struct Queue {
    pub(crate) name: QueueName,
    pub(crate) settings: Arc<QueueSettings>,
    pub(crate) paused: bool,
    /// It was deleted. Its next use brings it back.
    pub(crate) is_gone: bool,
    pub(crate) rate_horizon_us: i64,
    pub(crate) last_claim_ms: Option<i64>,
    pub(crate) fair_round: FairRound<i64>,
}

pub(crate) struct Tenant {
    pub(crate) name: TenantId,
    pub(crate) weight: u32,
}

/// Counts of one tenant's jobs in one queue.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Counts {
    pub(crate) depth: Depth,
    pub(crate) throughput: Throughput,
}

#[derive(Default)]
pub(crate) struct Memory {
    pub(crate) queues: HashMap<i64, Queue>,
    pub(crate) queue_nums: HashMap<QueueName, i64>,
    pub(crate) tenants: HashMap<i64, Tenant>,
    pub(crate) tenant_nums: HashMap<TenantId, i64>,
    /// By queue, then by tenant, in order.
    pub(crate) counts: HashMap<i64, BTreeMap<i64, Counts>>,
    /// Counters that differ from the file, by queue and tenant.
    pub(crate) dirty: HashSet<(i64, i64)>,
    /// Queues with new claims.
    pub(crate) claimed: HashSet<i64>,
    pub(crate) ids: Option<IdMaker>,
    /// The last position of the log.
    pub(crate) head: u64,
    /// Rows of `dependencies`. While there are none, endings skip the search for dependents.
    pub(crate) dependencies: i64,
    /// The target behind which the next claim of deliveries begins.
    pub(crate) delivery_cursor: (i64, String),
    /// Notifications for the listener after the commit.
    pub(crate) notifications: PendingNotifications,
}

#[derive(Default)]
pub(crate) struct PendingNotifications {
    pub(crate) ready: HashSet<i64>,
    pub(crate) ended: Vec<(JobId, EventKind)>,
    pub(crate) logged: bool,
    pub(crate) deliveries: bool,
}

impl Memory {
    pub(crate) fn load(connection: &Connection) -> Result<Memory, Error> {
        let mut memory = Memory::default();
        for row in all(connection, query!(tenants.all), [], TenantRow::read)? {
            let name = TenantId::new(&row.name)?;
            memory.tenant_nums.insert(name.clone(), row.num);
            let weight = row.weight;
            memory.tenants.insert(row.num, Tenant { name, weight });
        }
        memory.load_queues(connection)?;
        for row in all(connection, query!(queues.counters), [], CountersRow::read)? {
            let tenants = memory.counts.entry(row.queue).or_default();
            tenants.insert(row.tenant, row.counts());
        }
        let highest = first(connection, query!(jobs.highest_id), [], scalar)?;
        memory.ids = Some(IdMaker::new(0, highest.unwrap_or(0)));
        memory.head = bounds(connection)?.1;
        memory.dependencies = first(connection, query!(waiting.count_dependencies), [], scalar)?.unwrap_or(0);
        Ok(memory)
    }

    fn load_queues(&mut self, connection: &Connection) -> Result<(), Error> {
        for row in all(connection, query!(queues.all), [], QueueRow::read)? {
            let queue = Queue {
                name: QueueName::new(&row.name)?,
                settings: Arc::new(record::read_settings(&row.settings)?),
                paused: row.paused,
                is_gone: row.gone,
                rate_horizon_us: row.rate_horizon_us,
                last_claim_ms: row.last_claim_ms,
                fair_round: FairRound::default(),
            };
            self.queue_nums.insert(queue.name.clone(), row.num);
            self.queues.insert(row.num, queue);
        }
        Ok(())
    }

    /// Returns the counters of a tenant in a queue for a change.
    pub(crate) fn counts(&mut self, queue: i64, tenant: i64) -> &mut Counts {
        self.dirty.insert((queue, tenant));
        self.counts.entry(queue).or_default().entry(tenant).or_default()
    }

    /// Returns how many jobs of a queue have not started.
    pub(crate) fn unstarted(&self, queue: i64) -> u64 {
        let tenants = self.counts.get(&queue).into_iter().flat_map(BTreeMap::values);
        tenants.map(|counts| counts.depth.unstarted()).sum()
    }
}

/// Returns the position up to which the log was trimmed, and its last position.
pub(crate) fn bounds(connection: &Connection) -> Result<(u64, u64), Error> {
    let trimmed: Option<Vec<u8>> = first(connection, query!(metadata.get), [TRIMMED_METADATA], scalar)?;
    let trimmed = match trimmed {
        None => 0,
        Some(bytes) => u64::from_be_bytes(bytes.as_slice().try_into().map_err(|_| Error::Damaged {
            what: "the log's first position".into(),
        })?),
    };
    let head: Option<u64> = first(connection, query!(events.head), [], scalar)?.flatten();
    Ok((trimmed, head.unwrap_or(0).max(trimmed)))
}
