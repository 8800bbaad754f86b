//! The names behind the numbers of queues and tenants.

use std::collections::HashMap;

use nagaya_jobs::error::Error;
use nagaya_jobs::name::{QueueName, TenantId};
use nagaya_sqlite_client::strange_value;
use rusqlite::{Connection, Row};

use crate::sql::{all, query};

/// All names, read along with what needs them: both are of one moment, and there are few.
pub(crate) struct Names {
    queues: HashMap<i64, QueueName>,
    tenants: HashMap<i64, TenantId>,
}

impl Names {
    pub(crate) fn read(connection: &Connection) -> Result<Names, Error> {
        let named = |sql| {
            all(connection, sql, [], |row| {
                Ok((row.get::<_, i64>(0)?, row.get::<_, String>(1)?))
            })
        };
        let mut names = Names {
            queues: HashMap::new(),
            tenants: HashMap::new(),
        };
        for (num, name) in named(query!(queues.all))? {
            names.queues.insert(num, QueueName::new(&name)?);
        }
        for (num, name) in named(query!(tenants.all))? {
            names.tenants.insert(num, TenantId::new(&name)?);
        }
        Ok(names)
    }

    pub(crate) fn queue(&self, row: &Row<'_>, column: usize) -> rusqlite::Result<QueueName> {
        let name = self.queues.get(&row.get(column)?);
        name.cloned().ok_or_else(|| strange_value(column, "queue"))
    }

    pub(crate) fn tenant(&self, row: &Row<'_>, column: usize) -> rusqlite::Result<TenantId> {
        let name = self.tenants.get(&row.get(column)?);
        name.cloned().ok_or_else(|| strange_value(column, "tenant"))
    }

    /// Returns a queue's number; one that no queue has when the name is unknown.
    pub(crate) fn queue_num(&self, name: &QueueName) -> i64 {
        let found = self.queues.iter().find(|(_, known)| *known == name);
        found.map_or(-1, |(num, _)| *num)
    }

    /// Returns a tenant's number; one that no tenant has when the name is unknown.
    pub(crate) fn tenant_num(&self, name: &TenantId) -> i64 {
        let found = self.tenants.iter().find(|(_, known)| *known == name);
        found.map_or(-1, |(num, _)| *num)
    }
}
