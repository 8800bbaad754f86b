//! Schedules and their runs.

use nagaya_jobs::error::Error;
use nagaya_jobs::name::TenantId;
use nagaya_jobs::record;
use nagaya_jobs::request::{Fired, Firing};
use nagaya_jobs::schedule::{Refusal, Schedule, ScheduleView, Times};
use nagaya_postgres_client::{Connection, Param, Session};

use crate::constrained_enqueue::{Fault, RUNS_MAX};
use crate::enqueue::Draft;
use crate::rows::ScheduleRow;
use crate::sql::{Queries, begin, commit, query};
use crate::step::Step;
use crate::store::Inner;

impl Inner {
    pub(crate) async fn put_schedule(&self, schedule: Schedule) -> Result<ScheduleView, Error> {
        let times = Times::parse(&schedule.cron, &schedule.time_zone)?;
        let session = self.cool().await?;
        let now_ms = self.time.now(&session).await?;
        times.check_comes(now_ms)?;
        let tenant = self
            .names
            .tenant_or_make(&session, &schedule.tenant, now_ms)
            .await?;
        let next_run_ms = if schedule.paused {
            None
        } else {
            times.next_after(now_ms)
        };
        let row = session
            .one(
                query!(schedules.put),
                &[
                    &tenant.id,
                    &schedule.name,
                    &schedule.cron,
                    &schedule.time_zone,
                    &record::write_missed(schedule.missed),
                    &schedule.paused,
                    &record::write_template(&schedule.template),
                    &next_run_ms,
                    &now_ms,
                ],
                ScheduleRow::read,
            )
            .await?;
        self.schedule_view(&session, row).await
    }

    pub(crate) async fn schedules(&self, tenant: Option<TenantId>) -> Result<Vec<ScheduleView>, Error> {
        let session = self.cool().await?;
        let tenant = tenant.as_ref().map(TenantId::as_str);
        let rows = session
            .all(query!(schedules.list), &[&tenant], ScheduleRow::read)
            .await?;
        self.schedule_views(&session, rows).await
    }

    pub(crate) async fn delete_schedule(&self, tenant: TenantId, name: String) -> Result<bool, Error> {
        let session = self.cool().await?;
        let gone = session
            .run(query!(schedules.delete), &[&tenant.as_str(), &name])
            .await?;
        Ok(gone > 0)
    }

    pub(crate) async fn due_schedules(&self, limit: usize) -> Result<Vec<ScheduleView>, Error> {
        let session = self.cool().await?;
        let now_ms = self.time.now(&session).await?;
        let limit = i64::try_from(limit).unwrap_or(i64::MAX);
        let rows = session
            .all(query!(schedules.due), &[&now_ms, &limit], ScheduleRow::read)
            .await?;
        self.schedule_views(&session, rows).await
    }

    pub(crate) async fn fire(&self, firings: Vec<Firing>) -> Result<Vec<Result<Fired, Error>>, Error> {
        let mut session = self.hot().await?;
        let mut answers = Vec::with_capacity(firings.len());
        for firing in firings {
            answers.push(self.fire_one(&mut session, firing).await);
        }
        Ok(answers)
    }

    async fn fire_one(&self, session: &mut Connection, firing: Firing) -> Result<Fired, Error> {
        for _ in 0..RUNS_MAX {
            let now_ms = self.time.now(session).await?;
            let tenant = self.names.tenant_or_make(session, &firing.tenant, now_ms).await?;
            let mut drafts = Vec::with_capacity(firing.jobs.len());
            for job in &firing.jobs {
                drafts.push(self.draft(session, job.clone(), now_ms).await?);
            }
            let transaction = begin(session).await?;
            let moved = transaction
                .run(
                    query!(schedules.move),
                    &[
                        &tenant.id,
                        &firing.schedule,
                        &firing.next_run_was_ms,
                        &firing.next_run_ms,
                        &firing.last_run_ms,
                    ],
                )
                .await?;
            if moved == 0 {
                return Ok(Fired::default());
            }
            // One step for all of them, so that the gate is taken once, at the end.
            let mut step = Step::new(self, &transaction, now_ms);
            let refused = match self.register_runs(&mut step, &drafts).await {
                Ok(refused) => refused,
                Err(fault) if fault.is_worth_another_run() => continue,
                Err(fault) => return Err(fault.into()),
            };
            if let Some(error) = refused.last() {
                let values: [Param<'_>; 4] = [&tenant.id, &firing.schedule, &now_ms, &error.to_string()];
                transaction.run(query!(schedules.refuse), &values).await?;
            }
            let after_commit = step.finish().await?;
            commit(transaction).await?;
            self.publish(after_commit);
            return Ok(Fired {
                advanced: true,
                refused,
            });
        }
        Err(Error::Busy)
    }

    /// Registers the jobs of runs. Returns why some were refused: a refusal has written nothing.
    async fn register_runs(&self, step: &mut Step<'_>, drafts: &[Draft]) -> Result<Vec<Error>, Fault> {
        let mut refused = Vec::new();
        for draft in drafts {
            match self.register(step, draft).await {
                Ok(_) => (),
                Err(Fault::Item(error))
                    if error.fault() != nagaya_jobs::error::Fault::Store && !matches!(error, Error::Busy) =>
                {
                    refused.push(error);
                }
                Err(fault) => return Err(fault),
            }
        }
        Ok(refused)
    }

    async fn schedule_views(
        &self,
        session: &Session,
        rows: Vec<ScheduleRow>,
    ) -> Result<Vec<ScheduleView>, Error> {
        let mut views = Vec::with_capacity(rows.len());
        for row in rows {
            views.push(self.schedule_view(session, row).await?);
        }
        Ok(views)
    }

    async fn schedule_view(&self, session: &Session, row: ScheduleRow) -> Result<ScheduleView, Error> {
        let tenant = self.names.tenant_of(session, row.tenant).await?;
        Ok(ScheduleView {
            schedule: Schedule {
                tenant: tenant.name.clone(),
                name: row.name,
                cron: row.cron,
                time_zone: row.time_zone,
                missed: record::read_missed(&row.missed)?,
                paused: row.paused,
                template: record::read_template(&row.template)?,
            },
            next_run_ms: row.next_run_ms,
            last_run_ms: row.last_run_ms,
            refused: row.refused_ms.map(|at_ms| Refusal {
                at_ms,
                why: row.refused.unwrap_or_default(),
            }),
            created_at_ms: row.created_ms,
        })
    }
}
