//! Maps the numbers of queues and tenants to names.

use std::collections::HashMap;

use nagaya_jobs::error::Error;
use nagaya_jobs::name::{QueueName, TenantId};
use rusqlite::Connection;

use crate::rows::{QueueRow, TenantRow};
use crate::sql::{all, query};

/// All names, read in the same transaction as the rows that need them. There are few.
pub(crate) struct Names {
    queues: HashMap<i64, QueueName>,
    tenants: HashMap<i64, TenantId>,
}

impl Names {
    pub(crate) fn read(connection: &Connection) -> Result<Names, Error> {
        let mut names = Names {
            queues: HashMap::new(),
            tenants: HashMap::new(),
        };
        for queue in all(connection, query!(queues.all), [], QueueRow::read)? {
            names.queues.insert(queue.num, QueueName::new(&queue.name)?);
        }
        for tenant in all(connection, query!(tenants.all), [], TenantRow::read)? {
            names.tenants.insert(tenant.num, TenantId::new(&tenant.name)?);
        }
        Ok(names)
    }

    pub(crate) fn queue(&self, num: i64) -> Result<QueueName, Error> {
        let name = self.queues.get(&num).cloned();
        name.ok_or_else(|| Error::Damaged {
            what: format!("queue {num} is missing"),
        })
    }

    pub(crate) fn tenant(&self, num: i64) -> Result<TenantId, Error> {
        let name = self.tenants.get(&num).cloned();
        name.ok_or_else(|| Error::Damaged {
            what: format!("tenant {num} is missing"),
        })
    }

    /// Returns the number of a queue; -1, which no queue has, when the name is unknown.
    pub(crate) fn queue_num(&self, name: &QueueName) -> i64 {
        let found = self.queues.iter().find(|(_, known)| *known == name);
        found.map_or(-1, |(num, _)| *num)
    }

    /// Returns the number of a tenant; -1, which no tenant has, when the name is unknown.
    pub(crate) fn tenant_num(&self, name: &TenantId) -> i64 {
        let found = self.tenants.iter().find(|(_, known)| *known == name);
        found.map_or(-1, |(num, _)| *num)
    }
}
