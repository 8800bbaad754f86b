//! What the writer keeps in memory: names, settings, counts and the order of turns.
//!
//! All of it can be read back from the file. It is changed along with the open transaction, so after a
//! rollback it is read anew.

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

use crate::sql::{all, first, query};

/// The fact that tells up to where the log has been cut off.
pub(crate) const TRIMMED_METADATA: &str = "log-trimmed";

pub(crate) struct Queue {
    pub(crate) name: QueueName,
    pub(crate) settings: Arc<QueueSettings>,
    pub(crate) paused: bool,
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
    /// Counts that differ from the file's, by queue and tenant.
    pub(crate) dirty: HashSet<(i64, i64)>,
    /// Queues whose claims have moved on.
    pub(crate) claimed: HashSet<i64>,
    pub(crate) ids: Option<IdMaker>,
    /// The last position of the log.
    pub(crate) head: u64,
    /// Rows of `dependencies`, so that most endings need not look there.
    pub(crate) dependencies: i64,
    /// What to tell the listener after the commit.
    pub(crate) notifications: PendingNotifications,
}

#[derive(Default)]
pub(crate) struct PendingNotifications {
    pub(crate) ready: HashSet<i64>,
    pub(crate) ended: Vec<(JobId, EventKind)>,
    pub(crate) logged: bool,
}

impl Memory {
    pub(crate) fn load(connection: &Connection) -> Result<Memory, Error> {
        let mut memory = Memory::default();
        for (num, name, weight) in all(connection, query!(tenants.all), [], |row| {
            Ok((row.get(0)?, row.get::<_, String>(1)?, row.get(2)?))
        })? {
            let name = TenantId::new(&name)?;
            memory.tenant_nums.insert(name.clone(), num);
            memory.tenants.insert(num, Tenant { name, weight });
        }
        memory.load_queues(connection)?;
        for (queue, tenant, counts) in all(connection, query!(queues.counters), [], |row| {
            Ok((row.get(0)?, row.get(1)?, counts(row, 2)?))
        })? {
            memory.counts.entry(queue).or_default().insert(tenant, counts);
        }
        let highest = first(connection, query!(jobs.highest_id), [], |row| row.get(0))?;
        memory.ids = Some(IdMaker::new(0, highest.unwrap_or(0)));
        memory.head = bounds(connection)?.1;
        memory.dependencies = first(connection, query!(waiting.count_dependencies), [], |row| {
            row.get(0)
        })?
        .unwrap_or(0);
        Ok(memory)
    }

    fn load_queues(&mut self, connection: &Connection) -> Result<(), Error> {
        let rows = all(connection, query!(queues.all), [], |row| {
            let settings: String = row.get(2)?;
            Ok((
                row.get(0)?,
                row.get::<_, String>(1)?,
                settings,
                row.get(3)?,
                row.get(5)?,
                row.get(6)?,
            ))
        })?;
        for (num, name, settings, paused, rate_horizon_us, last_claim_ms) in rows {
            let queue = Queue {
                name: QueueName::new(&name)?,
                settings: Arc::new(record::read_settings(&settings)?),
                paused,
                rate_horizon_us,
                last_claim_ms,
                fair_round: FairRound::default(),
            };
            self.queue_nums.insert(queue.name.clone(), num);
            self.queues.insert(num, queue);
        }
        Ok(())
    }

    /// Returns the counts of a tenant in a queue, to be changed.
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

/// Returns up to where the log has been cut off, and its last position.
pub(crate) fn bounds(connection: &Connection) -> Result<(u64, u64), Error> {
    let trimmed: Option<Vec<u8>> = first(connection, query!(metadata.get), [TRIMMED_METADATA], |row| {
        row.get(0)
    })?;
    let trimmed = match trimmed {
        None => 0,
        Some(bytes) => u64::from_be_bytes(bytes.as_slice().try_into().map_err(|_| Error::Damaged {
            what: "the log's first position".into(),
        })?),
    };
    let head: Option<u64> = first(connection, query!(events.head), [], |row| row.get(0))?.flatten();
    Ok((trimmed, head.unwrap_or(0).max(trimmed)))
}

/// Reads counts from the column `at` on.
pub(crate) fn counts(row: &rusqlite::Row<'_>, at: usize) -> rusqlite::Result<Counts> {
    let number = |column: usize| {
        row.get::<_, Option<u64>>(at + column)
            .map(Option::unwrap_or_default)
    };
    Ok(Counts {
        depth: Depth {
            scheduled: number(0)?,
            ready: number(1)?,
            blocked: number(2)?,
            running: number(3)?,
            succeeded: number(4)?,
            failed: number(5)?,
            cancelled: number(6)?,
        },
        throughput: Throughput {
            enqueued: number(7)?,
            started: number(8)?,
            succeeded: number(9)?,
            failed: number(10)?,
            cancelled: number(11)?,
            attempts_failed: number(12)?,
            leases_lost: number(13)?,
            late_reports: number(14)?,
        },
    })
}
