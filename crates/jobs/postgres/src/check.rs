//! Checks the invariants.

use nagaya_jobs::error::Error;
use nagaya_jobs::request::Finding;

use crate::sql::{Queries, query};
use crate::store::Inner;

impl Inner {
    pub(crate) async fn check(&self) -> Result<Vec<Finding>, Error> {
        let session = self.cool().await?;
        let mut findings = Vec::new();
        for sql in [
            query!(check.places),
            query!(check.strays),
            query!(check.endings),
            query!(check.attempts),
            query!(check.taken),
            query!(check.blocked),
        ] {
            let whats = session.scalars(sql, &[]).await?;
            findings.extend(whats.into_iter().map(|what| Finding { what }));
        }
        Ok(findings)
    }
}
