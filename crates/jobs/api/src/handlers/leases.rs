//! Leases: extended, given back, and watched while their worker waits for more jobs.

use std::time::Duration;

use nagaya_jobs::error::LostWhy;
use nagaya_jobs::job::check_lease;
use nagaya_jobs::request::{ClaimRequest, Extension, Release, Released};
use nagaya_jobs::service::{Claimed, LeaseWatch};
use nagaya_jobs::token::Lease;
use nagaya_jobs::{Error, JobId};

use super::{JobsHandlers, one};

/// Outcome of an attempt that was given back, in its span.
const RELEASED: &str = "released";

/// A lease that its worker no longer has.
#[derive(Clone, Debug)]
pub(crate) struct Lost {
    pub(crate) token: String,
    /// `None` for a token that nobody gave out.
    pub(crate) id: Option<JobId>,
    pub(crate) why: LostWhy,
}

impl JobsHandlers {
    /// Extends a lease. Returns when it ends.
    pub(crate) async fn extend(&self, extension: Extension) -> Result<i64, Error> {
        extension
            .length
            .map_or(Ok(()), |length| check_lease("timeout", length))?;
        one(self.extend_many(vec![extension]).await?)
    }

    /// Extends leases whose lengths have been checked.
    pub(crate) async fn extend_many(
        &self,
        extensions: Vec<Extension>,
    ) -> Result<Vec<Result<i64, Error>>, Error> {
        let lengths: Vec<_> = extensions.iter().map(|one| (one.lease, one.length)).collect();
        let answers = self.jobs.extend(extensions).await?;
        for ((lease, length), _) in lengths.iter().zip(&answers).filter(|(_, answer)| answer.is_ok()) {
            self.attempts.extend(lease, *length);
        }
        Ok(answers)
    }

    pub(crate) async fn release(&self, release: Release) -> Result<Released, Error> {
        one(self.release_many(vec![release]).await?)
    }

    pub(crate) async fn release_many(
        &self,
        releases: Vec<Release>,
    ) -> Result<Vec<Result<Released, Error>>, Error> {
        let leases: Vec<Lease> = releases.iter().map(|release| release.lease).collect();
        let answers = self.jobs.release(releases).await?;
        self.end_all(&leases, &answers, RELEASED);
        Ok(answers)
    }

    /// Watches the leases of a worker.
    pub(crate) fn watch_leases(&self) -> LeaseWatch {
        self.jobs.watch_leases([])
    }

    /// Returns what to tell a worker of leases that it has lost.
    pub(crate) fn told(&self, lost: Vec<(Lease, LostWhy)>) -> Vec<Lost> {
        let told = lost.into_iter().map(|(lease, why)| Lost {
            token: self.jobs.token(lease),
            id: Some(lease.id),
            why,
        });
        told.collect()
    }

    /// Claims jobs for a worker that has some under way already. When one of those is lost, the claim does not wait:
    /// the worker is told first.
    pub(crate) async fn claim_holding(
        &self,
        request: ClaimRequest,
        wait: Duration,
        holding: Vec<String>,
    ) -> Result<(Vec<Claimed>, Vec<Lost>), Error> {
        if holding.is_empty() {
            return Ok((self.claim(request, wait).await?, Vec::new()));
        }
        let mut watch = self.watch_leases();
        let mut lost = Vec::new();
        for token in holding {
            match self.lease(&token, None) {
                Ok(lease) => watch.add(lease),
                Err(_) => lost.push(Lost {
                    token,
                    id: None,
                    why: LostWhy::Unknown,
                }),
            }
        }
        lost.extend(self.told(watch.look().await?));
        if !lost.is_empty() {
            return Ok((self.claim(request, Duration::ZERO).await?, lost));
        }
        tokio::select! {
            // Jobs that were given to the claim at the same moment go back, which costs them no attempt.
            biased;
            claimed = self.claim(request, wait) => Ok((claimed?, Vec::new())),
            lost = watch.next() => Ok((Vec::new(), self.told(lost?))),
        }
    }
}
