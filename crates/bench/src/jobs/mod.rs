//! `nagaya-bench jobs`: our queue beside those that others use, over the same work.
//!
//! Every subject does the same: [`core`] registers many jobs in batches, burns them down, registers one at a
//! time from 1, 16 and 256 clients, and measures the time from registration to start at half of its own
//! speed. Ours is asked over HTTP and gRPC, so its figures hold the network's share; the peers are libraries
//! in one process with their database. [`flat`] asks whether a job gets dearer the more are waiting,
//! [`snapshot`] what a transaction does that stays open for long.

mod options;

mod core;
mod flat;
mod peers;
mod snapshot;

mod caller;
mod grpc;
mod http;

pub(super) mod nagaya_server;
pub(super) mod postgres;
mod report;

use std::path::Path;

use anyhow::Context;
use tokio::runtime::Runtime;

pub(crate) use options::JobsArgs;
pub(super) use options::Plan;
use options::{Part, Subject};
pub(super) use report::Report;

use caller::Caller;
use nagaya_server::{NagayaServer, Store};
use postgres::Postgres;

use super::progress;

/// Measures the subjects of the plan, one after the other.
pub(super) fn measure(plan: &Plan, folder: &Path) -> anyhow::Result<Report> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .context("cannot start the runtime")?;
    let postgres = if plan.needs_postgres() {
        Some(Postgres::start(plan.postgres.as_deref(), folder)?)
    } else {
        None
    };
    let mut report = Report::new(plan, postgres.as_ref());
    for &subject in &plan.subjects {
        progress(subject.name());
        let measured = match subject.ours() {
            None => peers::run(plan, subject, postgres.as_ref(), folder),
            Some((protocol, store)) => {
                let ours = Ours {
                    plan,
                    subject,
                    folder,
                    postgres: postgres.as_ref(),
                    runtime: &runtime,
                };
                ours.measure(protocol, store)
            }
        };
        match measured {
            Ok(figures) => report.add(figures),
            // A peer that cannot be installed must not discard the results of the others.
            Err(error) if subject.ours().is_none() => {
                progress(&format!("{} was not measured: {error:#}", subject.name()));
                report.missing.push(format!("{}: {error:#}", subject.name()));
            }
            Err(error) => return Err(error.context(subject.name())),
        }
    }
    Ok(report)
}

/// The protocol that a client uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Protocol {
    Http,
    Grpc,
}

/// One of our own subjects.
struct Ours<'a> {
    plan: &'a Plan,
    subject: Subject,
    folder: &'a Path,
    postgres: Option<&'a Postgres>,
    runtime: &'a Runtime,
}

impl Ours<'_> {
    fn measure(&self, protocol: Protocol, store: Store) -> anyhow::Result<Vec<report::Figure>> {
        let folder = self.folder.join(self.subject.name());
        std::fs::create_dir_all(&folder)?;
        let mut figures = Vec::new();
        for &part in &self.plan.parts {
            // Each part meets an empty store.
            let server = NagayaServer::start(
                &self.plan.nagaya,
                store,
                &folder.join(format!("{part:?}")),
                self.postgres,
            )?;
            let measured = match protocol {
                Protocol::Http => self.part(part, store, &http::Http::connect(&server)?)?,
                Protocol::Grpc => {
                    let caller = self.runtime.block_on(grpc::Grpc::connect(&server))?;
                    self.part(part, store, &caller)?
                }
            };
            figures.extend(measured);
        }
        Ok(figures)
    }

    fn part<C: Caller>(&self, part: Part, store: Store, caller: &C) -> anyhow::Result<Vec<report::Figure>> {
        let name = self.subject.name();
        match part {
            Part::Core => self.runtime.block_on(core::run(self.plan, name, caller)),
            Part::Flat => self.runtime.block_on(flat::run(self.plan, name, caller)),
            Part::Snapshot => match (store, self.postgres) {
                (Store::Postgres, Some(postgres)) => {
                    snapshot::run(self.plan, name, caller, postgres, self.runtime)
                }
                _ => Ok(Vec::new()),
            },
        }
    }
}
