//! Writes the collected changes of a step.

use nagaya_jobs::error::Error;
use nagaya_postgres_client::Session;
use serde::Serialize;

use super::{AfterCommit, Step};
use crate::rows::PositionRow;
use crate::sql::{Queries, query};

impl Step<'_> {
    /// Writes everything and returns what to do after the commit. Only the commit may follow, because the gate
    /// is held.
    pub(crate) async fn finish(mut self) -> Result<AfterCommit, Error> {
        let session = self.session;
        insert(session, query!(reports.insert_attempts), &self.attempts).await?;
        insert(session, query!(done.insert), &self.done).await?;
        insert(session, query!(waiting.insert_delayed), &self.delayed).await?;
        insert(session, query!(waiting.insert_blocked), &self.blocked).await?;
        if !self.released_unique.is_empty() {
            let delete = query!(keys.delete_unique);
            session.run(delete, &[&self.released_unique]).await?;
        }
        let ended: Vec<i64> = self.done.iter().map(|row| row.id).collect();
        if !ended.is_empty() {
            let note = query!(waiting.insert_resolving);
            self.after_commit.resolves = session.run(note, &[&ended]).await? > 0;
        }
        self.grant_slots().await?;
        insert(session, query!(ready.insert), &self.ready).await?;
        self.counts.write(session).await?;
        self.write_log().await?;
        Ok(self.after_commit)
    }

    /// Grants the slots of concurrency keys to waiting jobs, in order. The row of a key is locked by its own
    /// statement, so that the next one sees everything that was done under the lock before.
    async fn grant_slots(&mut self) -> Result<(), Error> {
        for ((queue, key), mut work) in std::mem::take(&mut self.keys) {
            let find = if work.sets_limit {
                query!(concurrency.set_limit)
            } else {
                query!(concurrency.find_or_insert)
            };
            let place: i64 = self.session.scalar(find, &[&queue, &key, &work.most]).await?;
            for waiting in &mut work.waiting {
                waiting.place = Some(place);
            }
            insert(self.session, query!(waiting.insert_blocked), &work.waiting).await?;
            let grant = query!(concurrency.grant);
            let granted = self
                .session
                .all(grant, &[&place, &work.left], PositionRow::read)
                .await?;
            for row in granted {
                self.make_ready(&row.position()?).await?;
            }
        }
        Ok(())
    }

    async fn write_log(&mut self) -> Result<(), Error> {
        if self.events.is_empty() {
            return Ok(());
        }
        let mut seqs: Vec<i64> = self
            .session
            .scalars(query!(events.insert), &[&json(&self.events)])
            .await?;
        seqs.sort_unstable();
        self.after_commit.head = seqs.last().copied();
        let deliveries: Vec<_> = std::mem::take(&mut self.deliveries)
            .into_iter()
            .map(|(event, mut delivery)| {
                delivery.seq = seqs[event];
                delivery
            })
            .collect();
        self.after_commit.delivers = !deliveries.is_empty();
        insert(self.session, query!(deliveries.insert), &deliveries).await
    }
}

async fn insert<R: Serialize>(session: &Session, sql: &'static str, rows: &[R]) -> Result<(), Error> {
    if !rows.is_empty() {
        session.run(sql, &[&json(rows)]).await?;
    }
    Ok(())
}

fn json<R: Serialize>(rows: &[R]) -> String {
    serde_json::to_string(rows).expect("rows have string keys and no floats")
}
