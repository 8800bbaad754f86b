//! Schedules and their runs.

use nagaya_jobs::error::{Error, Fault};
use nagaya_jobs::name::TenantId;
use nagaya_jobs::record;
use nagaya_jobs::request::{Fired, Firing};
use nagaya_jobs::schedule::{Refusal, Schedule, ScheduleView, Times};
use rusqlite::{Connection, params};

use crate::enqueue::enqueue;
use crate::rows::ScheduleRow;
use crate::sql::{all, first, query, run};
use crate::write_transaction::WriteTransaction;

fn view(row: ScheduleRow) -> Result<ScheduleView, Error> {
    Ok(ScheduleView {
        schedule: Schedule {
            tenant: TenantId::new(&row.tenant)?,
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

pub(crate) fn put(tx: &mut WriteTransaction<'_>, schedule: &Schedule) -> Result<ScheduleView, Error> {
    let times = Times::parse(&schedule.cron, &schedule.time_zone)?;
    times.check_comes(tx.now_ms)?;
    let next_run_ms = if schedule.paused {
        None
    } else {
        times.next_after(tx.now_ms)
    };
    let tenant = tx.tenant_num(&schedule.tenant)?;
    let values = params![
        tenant,
        schedule.name,
        schedule.cron,
        schedule.time_zone,
        record::write_missed(schedule.missed),
        schedule.paused,
        record::write_template(&schedule.template),
        next_run_ms,
        tx.now_ms,
    ];
    run(tx.connection, query!(schedules.put), values)?;
    let values = params![tenant, schedule.name];
    let row = first(tx.connection, query!(schedules.find), values, ScheduleRow::read)?;
    view(row.ok_or_else(|| Error::no_such("schedule", &schedule.name))?)
}

pub(crate) fn list(connection: &Connection, tenant: Option<&TenantId>) -> Result<Vec<ScheduleView>, Error> {
    let values = params![tenant.map(TenantId::as_str)];
    let rows = all(connection, query!(schedules.list), values, ScheduleRow::read)?;
    rows.into_iter().map(view).collect()
}

pub(crate) fn due(connection: &Connection, now_ms: i64, limit: usize) -> Result<Vec<ScheduleView>, Error> {
    let rows = all(
        connection,
        query!(schedules.due),
        params![now_ms, limit],
        ScheduleRow::read,
    )?;
    rows.into_iter().map(view).collect()
}

pub(crate) fn delete(tx: &mut WriteTransaction<'_>, tenant: &TenantId, name: &str) -> Result<bool, Error> {
    let tenant = tx.tenant_num_or_none(tenant);
    Ok(run(tx.connection, query!(schedules.delete), params![tenant, name])? > 0)
}

pub(crate) fn fire(tx: &mut WriteTransaction<'_>, firing: &Firing) -> Result<Fired, Error> {
    let tenant = tx.tenant_num_or_none(&firing.tenant);
    let values = params![
        tenant,
        firing.schedule,
        firing.next_run_was_ms,
        firing.next_run_ms,
        firing.last_run_ms,
    ];
    if run(tx.connection, query!(schedules.move), values)? == 0 {
        return Ok(Fired::default());
    }
    let mut refused = Vec::new();
    for job in &firing.jobs {
        match enqueue(tx, job) {
            Err(error) if error.fault() == Fault::Store => return Err(error),
            Err(error) => refused.push(error),
            Ok(_) => (),
        }
    }
    if let Some(error) = refused.last() {
        let values = params![tenant, firing.schedule, tx.now_ms, error.to_string()];
        run(tx.connection, query!(schedules.refuse), values)?;
    }
    Ok(Fired {
        advanced: true,
        refused,
    })
}
