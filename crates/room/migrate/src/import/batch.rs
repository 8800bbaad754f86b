//! One connection's share of an import.

use std::collections::BTreeMap;
use std::sync::Arc;

use nagaya_redis_client::{Client, Connection, Frame};
use tokio::sync::{Mutex, mpsc};

use super::target::Target;
use super::{Existing, Head, Imported, Work, large};
use crate::{Error, Progress, REPLY_LIMIT};

/// What the server said to one RESTORE.
pub(super) enum Outcome {
    Done,
    /// The key is there already.
    Busy,
    /// This value was not taken; others may be.
    Refused(String),
}

/// Takes work until there is no more, or until the server can take none.
pub(super) async fn work(
    mut target: Target,
    existing: Existing,
    queue: Arc<Mutex<mpsc::Receiver<Work>>>,
    progress: Arc<Progress>,
) -> Imported {
    let mut counts = Imported::default();
    loop {
        let next = queue.lock().await.recv().await;
        let Some(work) = next else { return counts };
        if let Err(error) = write(&mut target, existing, work, &mut counts, &progress).await {
            // The other connections and the reader end as well: nobody takes from a closed queue.
            queue.lock().await.close();
            counts.stopped = Some(error.chain());
            return counts;
        }
    }
}

async fn write(
    target: &mut Target,
    existing: Existing,
    work: Work,
    counts: &mut Imported,
    progress: &Progress,
) -> Result<(), Error> {
    match work {
        Work::Function(code) => function(&target.client, existing, &code, counts).await,
        Work::Keys(batch) => {
            let db = batch.first().map_or(0, |(head, _)| head.db);
            keys(target.client_of(db)?, existing, &batch, counts, progress).await
        }
        Work::Large(head, parts) => {
            let client = target.client_of(head.db)?;
            large::write(client, existing, &head, parts, counts, progress).await
        }
    }
}

async fn function(
    client: &Client,
    existing: Existing,
    code: &[u8],
    counts: &mut Imported,
) -> Result<(), Error> {
    let mut args: Vec<&[u8]> = vec![b"FUNCTION", b"LOAD"];
    if existing == Existing::Replace {
        args.push(b"REPLACE");
    }
    args.push(code);
    let mut was_there = false;
    for primary in client.primaries().await? {
        let connection = client.dedicated_to(&primary.server).await?;
        match connection.call(&args).await {
            Ok(_) => (),
            Err(error)
                if error
                    .server_error()
                    .is_some_and(|error| error.text().contains("already exists")) =>
            {
                was_there = true;
            }
            Err(error) => return Err(error.into()),
        }
    }
    if was_there {
        let first_line = code.split(|&byte| byte == b'\n').next().unwrap_or_default();
        counts.busy(first_line, existing);
    } else {
        counts.functions += 1;
    }
    Ok(())
}

async fn keys(
    client: &Client,
    existing: Existing,
    batch: &[(Head, Vec<u8>)],
    counts: &mut Imported,
    progress: &Progress,
) -> Result<(), Error> {
    let expiries: Vec<String> = batch
        .iter()
        .map(|(head, _)| head.expires_at_ms.unwrap_or(0).to_string())
        .collect();
    let requests: Vec<Vec<&[u8]>> = batch
        .iter()
        .zip(&expiries)
        .map(|((head, payload), expiry)| {
            let mut args: Vec<&[u8]> = vec![b"RESTORE", &head.name, expiry.as_bytes(), payload, b"ABSTTL"];
            if existing == Existing::Replace {
                args.push(b"REPLACE");
            }
            args
        })
        .collect();
    // Keys of a cluster go to several servers.
    let mut by_server: BTreeMap<u64, (Connection, Vec<usize>)> = BTreeMap::new();
    for (index, (head, _)) in batch.iter().enumerate() {
        let connection = client.connection(&head.name).await?;
        let entry = by_server.entry(connection.id());
        entry.or_insert_with(|| (connection, Vec::new())).1.push(index);
    }
    for (connection, indexes) in by_server.into_values() {
        let commands: Vec<&[&[u8]]> = indexes.iter().map(|&index| requests[index].as_slice()).collect();
        let replies = connection.pipeline_within(&commands, REPLY_LIMIT).await?;
        for (index, reply) in indexes.into_iter().zip(replies) {
            let (head, payload) = &batch[index];
            match outcome(client, &head.name, &requests[index], reply).await? {
                Outcome::Done => {
                    counts.keys += 1;
                    counts.bytes += payload.len() as u64;
                }
                Outcome::Busy => counts.busy(&head.name, existing),
                Outcome::Refused(reason) => counts.refuse(head, reason),
            }
            progress.add_keys(1);
        }
    }
    Ok(())
}

/// Says what a reply to RESTORE means. A command that was redirected has not run and is sent where it belongs;
/// what no later key could succeed after is an error.
pub(super) async fn outcome(
    client: &Client,
    key: &[u8],
    args: &[&[u8]],
    reply: Frame,
) -> Result<Outcome, Error> {
    let Some(text) = error_text(&reply) else {
        return Ok(Outcome::Done);
    };
    if !is_redirect(&text) {
        return judge(text);
    }
    match client.call(key, args).await {
        Ok(_) => Ok(Outcome::Done),
        Err(error) => match error.server_error() {
            Some(refusal) => judge(refusal.text().to_owned()),
            None => Err(error.into()),
        },
    }
}

pub(super) fn error_text(reply: &Frame) -> Option<String> {
    match reply {
        Frame::Error(text) | Frame::BlobError(text) => Some(String::from_utf8_lossy(text).into_owned()),
        _ => None,
    }
}

pub(crate) fn is_redirect(text: &str) -> bool {
    ["MOVED ", "ASK ", "TRYAGAIN "]
        .iter()
        .any(|code| text.starts_with(code))
}

/// Tells what is wrong with one value from what is wrong with the server.
fn judge(text: String) -> Result<Outcome, Error> {
    const OF_ONE_VALUE: [&str; 4] = [
        "Bad data format",
        "payload version or checksum",
        "no hash tag",
        "Invalid TTL",
    ];
    if text.starts_with("BUSYKEY") {
        Ok(Outcome::Busy)
    } else if OF_ONE_VALUE.iter().any(|known| text.contains(known)) {
        Ok(Outcome::Refused(text))
    } else {
        Err(Error::Refused {
            command: "RESTORE",
            reply: text,
        })
    }
}
