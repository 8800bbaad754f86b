//! Checks the invariants of the whole file.

use nagaya_jobs::error::Error;
use nagaya_jobs::request::Finding;
use rusqlite::Connection;

use crate::memory::bounds;
use crate::rows::{
    ForgottenJob, MiscountedJob, MiscountedKey, MisplacedJob, StrayRow, WrongCounters, WrongEndings,
};
use crate::sql::{all, query, scalar};

pub(crate) fn check(connection: &Connection) -> Result<Vec<Finding>, Error> {
    let mut findings = Vec::new();
    let mut find = |whats: Vec<String>| findings.extend(whats.into_iter().map(|what| Finding { what }));
    let misplaced = all(connection, query!(check.places), [], MisplacedJob::read)?;
    find(each(misplaced, |row| {
        format!("job {} is in {} places", row.id, row.places)
    }));
    let strays = all(connection, query!(check.strays), [], StrayRow::read)?;
    find(each(strays, |row| {
        format!("{} holds {}, which is no job", row.place, row.id)
    }));
    let miscounted = all(connection, query!(check.taken), [], MiscountedKey::read)?;
    find(each(miscounted, |row| {
        let MiscountedKey { key, taken, holders } = row;
        format!("key {key} counts {taken} places taken, {holders} jobs hold one")
    }));
    let forgotten = all(connection, query!(check.held), [], ForgottenJob::read)?;
    find(each(forgotten, |row| {
        format!("job {} waits for a place that is free", row.id)
    }));
    let blocked = all(connection, query!(check.blocked), [], MiscountedJob::read)?;
    find(each(blocked, |row| {
        format!(
            "job {} waits for another number of jobs than it depends on",
            row.id
        )
    }));
    let counters = all(connection, query!(check.counters), [], WrongCounters::read)?;
    find(each(counters, |row| {
        format!(
            "counts of queue {} and tenant {} are wrong",
            row.queue, row.tenant
        )
    }));
    findings.extend(endings(connection)?);
    let file: Vec<String> = all(connection, query!(check.file), [], scalar)?;
    let wrong = file.into_iter().filter(|line| line != "ok");
    findings.extend(wrong.map(|what| Finding { what }));
    Ok(findings)
}

/// Finds jobs with a wrong number of endings. A retry by an operator takes one back.
fn endings(connection: &Connection) -> Result<Vec<Finding>, Error> {
    let (trimmed, _) = bounds(connection)?;
    let wrong = all(connection, query!(check.endings), [trimmed], WrongEndings::read)?;
    let finding = |row: WrongEndings| Finding {
        what: format!(
            "job {} has {} endings and {} retries by hand",
            row.id, row.endings, row.revivals
        ),
    };
    Ok(wrong.into_iter().map(finding).collect())
}

fn each<R>(rows: Vec<R>, what: impl Fn(R) -> String) -> Vec<String> {
    rows.into_iter().map(what).collect()
}
