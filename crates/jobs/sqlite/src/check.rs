//! Looks for broken promises in the whole file.

use nagaya_jobs::error::Error;
use nagaya_jobs::request::Finding;
use rusqlite::{Connection, Row};

use crate::memory::bounds;
use crate::sql::{all, query};

pub(crate) fn check(connection: &Connection) -> Result<Vec<Finding>, Error> {
    let mut findings = Vec::new();
    let mut look = |sql: &str, describe: &dyn Fn(&Row<'_>) -> rusqlite::Result<String>| {
        let found = all(connection, sql, [], |row| describe(row))?;
        findings.extend(found.into_iter().map(|what| Finding { what }));
        Ok::<(), Error>(())
    };
    let id = |row: &Row<'_>| row.get::<_, i64>(0);
    look(query!(check.places), &|row| {
        Ok(format!("job {} is in {} places", id(row)?, row.get::<_, i64>(1)?))
    })?;
    look(query!(check.strays), &|row| {
        Ok(format!(
            "{} holds {}, which is no job",
            row.get::<_, String>(0)?,
            row.get::<_, i64>(1)?
        ))
    })?;
    look(query!(check.taken), &|row| {
        let (key, taken, holders): (String, i64, i64) = (row.get(0)?, row.get(1)?, row.get(2)?);
        Ok(format!(
            "key {key} counts {taken} places taken, {holders} jobs hold one"
        ))
    })?;
    look(query!(check.held), &|row| {
        Ok(format!("job {} waits for a place that is free", id(row)?))
    })?;
    look(query!(check.blocked), &|row| {
        Ok(format!(
            "job {} waits for another number of jobs than it depends on",
            id(row)?
        ))
    })?;
    look(query!(check.counters), &|row| {
        Ok(format!(
            "counts of queue {} and tenant {} are wrong",
            id(row)?,
            row.get::<_, i64>(1)?
        ))
    })?;
    findings.extend(endings(connection)?);
    let file = all(connection, query!(check.file), [], |row| row.get::<_, String>(0))?;
    let wrong = file.into_iter().filter(|line| line != "ok");
    findings.extend(wrong.map(|what| Finding { what }));
    Ok(findings)
}

/// A job has one ending, not counting those that a retry by hand took back.
fn endings(connection: &Connection) -> Result<Vec<Finding>, Error> {
    let (trimmed, _) = bounds(connection)?;
    Ok(all(connection, query!(check.endings), [trimmed], |row| {
        let (id, endings, revivals): (i64, i64, i64) = (row.get(0)?, row.get(1)?, row.get(2)?);
        Ok(Finding {
            what: format!("job {id} has {endings} endings and {revivals} retries by hand"),
        })
    })?)
}
