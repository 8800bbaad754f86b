//! Looking for broken promises.

use super::store::Inner;
use crate::error::Error;
use crate::request::Finding;

impl Inner {
    pub(super) async fn check(&self) -> Result<Vec<Finding>, Error> {
        let session = self.cool().await?;
        let mut findings = Vec::new();
        for sql in [
            include_str!("queries/check/places.sql"),
            include_str!("queries/check/strays.sql"),
            include_str!("queries/check/endings.sql"),
            include_str!("queries/check/attempts.sql"),
            include_str!("queries/check/taken.sql"),
            include_str!("queries/check/blocked.sql"),
        ] {
            let rows = session.query(sql, &[]).await?;
            findings.extend(rows.iter().map(|row| Finding { what: row.get(0) }));
        }
        Ok(findings)
    }
}
