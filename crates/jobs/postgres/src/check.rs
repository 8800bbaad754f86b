//! Looking for broken promises.

use nagaya_jobs::error::Error;
use nagaya_jobs::request::Finding;

use crate::sql::Queries;
use crate::store::Inner;

impl Inner {
    pub(crate) async fn check(&self) -> Result<Vec<Finding>, Error> {
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
            let rows = session.rows(sql, &[]).await?;
            findings.extend(rows.iter().map(|row| Finding { what: row.get(0) }));
        }
        Ok(findings)
    }
}
