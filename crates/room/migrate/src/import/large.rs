//! Values too large for one RESTORE: built part by part under a name of their own, then renamed.

use nagaya_rdb::payload;
use nagaya_redis_client::{Client, Connection, Frame};
use nagaya_store::limits::EncodingLimits;
use nagaya_store::listpack::Item;
use nagaya_store::rdb::restore;
use nagaya_store::value::Value;
use nagaya_tiering::tag::tag_of;
use tokio::sync::mpsc;

use super::batch::error_text;
use super::{Existing, Head, Imported, Part};
use crate::{Error, Progress, REPLY_LIMIT};

/// Elements of one command.
const COMMAND_ELEMENTS: usize = 512;
/// How long the unfinished value of an import that was ended stays, in milliseconds.
const UNFINISHED_MS: &[u8] = b"600000";

/// Why a value did not come about.
enum Failed {
    /// The file is damaged; the reader says where.
    Cut,
    Refused(String),
    Server(Error),
}

impl From<nagaya_redis_client::Error> for Failed {
    fn from(error: nagaya_redis_client::Error) -> Failed {
        Failed::Server(error.into())
    }
}

/// Writes one large value. Only a server that can take nothing more is an error.
pub(super) async fn write(
    client: &Client,
    existing: Existing,
    head: &Head,
    parts: mpsc::Receiver<Part>,
    counts: &mut Imported,
    progress: &Progress,
) -> Result<(), Error> {
    let connection = client.connection(&head.name).await?;
    progress.add_keys(1);
    if existing != Existing::Replace && is_there(&connection, &head.name).await? {
        counts.busy(&head.name, existing);
        return Ok(());
    }
    let unfinished = unfinished_name(head);
    let built = match build(&connection, &unfinished, parts).await {
        Ok(bytes) => finish(&connection, existing, head, &unfinished)
            .await
            .map(|done| (bytes, done)),
        Err(failed) => Err(failed),
    };
    match built {
        Ok((bytes, true)) => {
            counts.keys += 1;
            counts.bytes += bytes;
            return Ok(());
        }
        Ok((_, false)) => counts.busy(&head.name, existing),
        Err(Failed::Cut) => (),
        Err(Failed::Refused(reason)) => counts.refuse(head, reason),
        // The connection is of no more use; what was built expires.
        Err(Failed::Server(error)) => return Err(error),
    }
    connection.call(&[b"UNLINK", unfinished.as_slice()]).await?;
    Ok(())
}

async fn is_there(connection: &Connection, key: &[u8]) -> Result<bool, Error> {
    Ok(connection.call(&[b"EXISTS", key]).await? == Frame::Int(1))
}

/// A name with the key's tag, so that it lies beside it. A key with a brace but without a tag has no such
/// name; a cluster refuses to rename it then.
fn unfinished_name(head: &Head) -> Vec<u8> {
    let mut name = b"{".to_vec();
    name.extend_from_slice(tag_of(&head.name));
    name.extend_from_slice(format!("}}:nagaya-import:{}", head.offset).as_bytes());
    name
}

/// Writes all parts and returns their bytes.
async fn build(
    connection: &Connection,
    unfinished: &[u8],
    mut parts: mpsc::Receiver<Part>,
) -> Result<u64, Failed> {
    connection.call(&[b"UNLINK", unfinished]).await?;
    let mut bytes = 0;
    loop {
        let Part { mut body, is_last } = parts.recv().await.ok_or(Failed::Cut)?;
        bytes += body.len() as u64;
        let version = payload::version_of(body[0]);
        payload::seal(&mut body, version);
        let value = restore(&body, &EncodingLimits::default())
            .map_err(|_| Failed::Refused("a part of the value cannot be read".to_owned()))?;
        drop(body);
        for command in commands(unfinished, &value) {
            let args: Vec<&[u8]> = command.iter().map(Vec::as_slice).collect();
            connection.call(&args).await?;
        }
        connection.call(&[b"PEXPIRE", unfinished, UNFINISHED_MS]).await?;
        if is_last {
            return Ok(bytes);
        }
    }
}

/// Gives the value its expiry and its name at once. Returns false if the name is taken.
async fn finish(
    connection: &Connection,
    existing: Existing,
    head: &Head,
    unfinished: &[u8],
) -> Result<bool, Failed> {
    let expiry = head.expires_at_ms.map(|at_ms| at_ms.to_string());
    let expire: Vec<&[u8]> = match &expiry {
        Some(at_ms) => vec![b"PEXPIREAT", unfinished, at_ms.as_bytes()],
        None => vec![b"PERSIST", unfinished],
    };
    let rename: &[u8] = match existing {
        Existing::Replace => b"RENAME",
        Existing::Refuse | Existing::Keep => b"RENAMENX",
    };
    let rename: [&[u8]; 3] = [rename, unfinished, &head.name];
    let commands: [&[&[u8]]; 4] = [&[b"MULTI"], &expire, &rename, &[b"EXEC"]];
    let replies = connection.pipeline_within(&commands, REPLY_LIMIT).await?;
    for reply in &replies {
        if let Some(text) = error_text(reply) {
            return Err(Failed::Refused(text));
        }
    }
    match replies.last() {
        Some(Frame::Array(results)) if results.len() == 2 => match error_text(&results[1]) {
            Some(text) => Err(Failed::Refused(text)),
            None => Ok(results[1] != Frame::Int(0)),
        },
        _ => Err(Failed::Server(Error::Nonsense { command: "EXEC" })),
    }
}

/// Returns the commands that add the elements of a collection to a key.
fn commands(key: &[u8], value: &Value) -> Vec<Vec<Vec<u8>>> {
    let text = |item: Item<'_>| item.to_vec();
    let (name, elements): (&str, Vec<Vec<Vec<u8>>>) = match value {
        Value::List(list) => ("RPUSH", list.iter().map(|item| vec![text(item)]).collect()),
        Value::Set(set) => ("SADD", set.iter().map(|item| vec![text(item)]).collect()),
        Value::Hash(hash) => (
            "HSET",
            hash.iter()
                .map(|(field, value)| vec![text(field), text(value)])
                .collect(),
        ),
        Value::Zset(zset) => (
            "ZADD",
            zset.iter()
                .map(|entry| vec![entry.score.to_string().into_bytes(), text(entry.member)])
                .collect(),
        ),
        Value::Int(_) | Value::Str(_) | Value::Stream(_) => {
            unreachable!("values without elements come whole")
        }
    };
    let start = || vec![name.as_bytes().to_vec(), key.to_vec()];
    let chunk = |chunk: &[Vec<Vec<u8>>]| start().into_iter().chain(chunk.concat()).collect();
    elements.chunks(COMMAND_ELEMENTS).map(chunk).collect()
}
