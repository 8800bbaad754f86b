//! The databases of a server that one connection's share of an import goes to.

use std::collections::BTreeMap;

use nagaya_redis_client::{Client, RedisUrl};

use crate::Error;

pub(super) struct Target {
    to: RedisUrl,
    keeps_databases: bool,
    /// That of the URL's own database.
    pub(super) client: Client,
    others: BTreeMap<u32, Client>,
}

impl Target {
    pub(super) fn new(to: &RedisUrl, keeps_databases: bool) -> Result<Target, Error> {
        Ok(Target {
            client: crate::client(to.clone())?,
            to: to.clone(),
            keeps_databases,
            others: BTreeMap::new(),
        })
    }

    /// Returns the client for keys of a database of the file.
    pub(super) fn client_of(&mut self, db: u32) -> Result<&Client, Error> {
        if !self.keeps_databases || db == self.to.db {
            return Ok(&self.client);
        }
        if !self.others.contains_key(&db) {
            let url = RedisUrl {
                db,
                ..self.to.clone()
            };
            self.others.insert(db, crate::client(url)?);
        }
        Ok(&self.others[&db])
    }
}
