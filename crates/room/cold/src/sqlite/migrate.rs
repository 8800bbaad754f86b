//! The schema of a cold tier's file.

use nagaya_sqlite_client::{Migration, Schema};

pub(super) const SCHEMA: Schema = Schema {
    what: "a cold tier",
    // "ngya"
    application_id: 0x6e67_7961,
    migrations: &[Migration {
        name: "tags_and_keys",
        up: include_str!("migrations/0001_tags_and_keys.up.sql"),
        down: include_str!("migrations/0001_tags_and_keys.down.sql"),
    }],
};

#[cfg(test)]
mod tests {
    use std::path::Path;

    use rusqlite::Connection;

    use super::*;

    #[test]
    fn every_migration_can_be_taken_back() {
        let connection = Connection::open_in_memory().unwrap();
        let here = Path::new("cold.db");
        for target in (0..=SCHEMA.newest()).rev() {
            SCHEMA.upgrade(&connection, here).unwrap();
            SCHEMA.to(&connection, here, target).unwrap();
            assert_eq!(SCHEMA.version_of(&connection, here).unwrap(), target);
        }
    }
}
