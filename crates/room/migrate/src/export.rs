//! A server's keys as a file that redis-server loads.

use std::io::Write;

use nagaya_clock::Clock;
use nagaya_rdb::{VERSION, Writer, payload};
use nagaya_redis_client::{Client, reply};
use serde::Serialize;

use crate::fetch::Fetcher;
use crate::key_set::KeySet;
use crate::walk::Walk;
use crate::{Error, Progress, shown};

/// What to export.
#[derive(Clone, Debug, Default)]
pub struct ExportOptions {
    /// A pattern as SCAN's MATCH takes it; without one, all keys and the functions.
    pub pattern: Option<Vec<u8>>,
}

/// What a file got.
#[derive(Debug, Default, Serialize)]
pub struct Exported {
    /// The file's version: 10, or that of the server's own values.
    pub version: u16,
    pub keys: u64,
    pub bytes: u64,
    pub expiring: u64,
    pub functions: u64,
    /// Why there are no functions in the file, if the server did not tell them.
    pub functions_refused: Option<String>,
    /// Keys that went away while the export ran.
    pub gone: u64,
}

/// Writes a file with all keys that are there from start to end; of those that change meanwhile, a state that they
/// had. `total` is told how many keys the server says to have.
///
/// `from` has the databases that the file gets, by their numbers there, and a client of each; at least one.
pub async fn export<W: Write>(
    from: Vec<(u32, Client)>,
    out: W,
    options: ExportOptions,
    clock: &dyn Clock,
    progress: &Progress,
    total: impl FnOnce(u64),
) -> Result<(Exported, W), Error> {
    let mut exported = Exported::default();
    let functions = if options.pattern.is_none() {
        match from.first() {
            Some((_, client)) => functions(client, &mut exported).await?,
            None => Vec::new(),
        }
    } else {
        Vec::new()
    };
    let mut expected = Vec::new();
    for (_, client) in &from {
        expected.push(Walk::start(client, None).await?.total().await);
    }
    total(expected.iter().sum());
    let mut file = Target::Unbegun(out, functions);
    for ((db, client), keys) in from.into_iter().zip(expected) {
        let mut walk = Walk::start(&client, options.pattern.clone()).await?;
        let mut database = Database {
            number: db,
            keys,
            fetcher: Fetcher::new(client, clock).await?,
            is_begun: false,
        };
        database
            .export(&mut walk, &mut file, &mut exported, progress, clock)
            .await?;
    }
    file.begin(None, clock, &mut exported)?;
    let out = file.finish()?;
    Ok((exported, out))
}

/// A database on its way into the file.
struct Database<'c> {
    number: u32,
    /// How many keys it is said to have.
    keys: u64,
    fetcher: Fetcher<'c>,
    /// The file says that its keys follow.
    is_begun: bool,
}

impl Database<'_> {
    async fn export<W: Write>(
        &mut self,
        walk: &mut Walk,
        file: &mut Target<W>,
        exported: &mut Exported,
        progress: &Progress,
        clock: &dyn Clock,
    ) -> Result<(), Error> {
        let mut seen = KeySet::default();
        while let Some(mut keys) = walk.next().await? {
            // SCAN may name a key twice, and Redis ends when a file does.
            keys.retain(|key| seen.insert(key));
            let mut rest = keys.as_slice();
            while !rest.is_empty() {
                let (now, later) = rest.split_at(self.fetcher.batch_keys().min(rest.len()));
                rest = later;
                for (key, value) in now.iter().zip(self.fetcher.fetch(now).await?) {
                    let Some(value) = value else {
                        exported.gone += 1;
                        continue;
                    };
                    let writer = file.begin(Some(&value.payload), clock, exported)?;
                    if !std::mem::replace(&mut self.is_begun, true) {
                        writer.database(self.number, self.keys, 0)?;
                    }
                    writer
                        .key(key, value.expires_at_ms, &value.payload)
                        .map_err(|source| Error::Value {
                            key: shown(key),
                            source,
                        })?;
                    exported.keys += 1;
                    exported.bytes += value.payload.len() as u64;
                    exported.expiring += u64::from(value.expires_at_ms.is_some());
                }
                progress.add_keys(now.len() as u64);
            }
        }
        Ok(())
    }
}

/// Returns the numbers of the databases of a server that have keys.
pub async fn databases(from: &Client) -> Result<Vec<u32>, Error> {
    let told = from.call(b"", &[b"INFO".as_slice(), b"keyspace"]).await?;
    let text = reply::bytes(&told).ok_or(Error::Nonsense { command: "INFO" })?;
    let text = String::from_utf8_lossy(text);
    let numbers = text.lines().filter_map(|line| {
        let (number, _) = line.strip_prefix("db")?.split_once(':')?;
        number.parse().ok()
    });
    Ok(numbers.collect())
}

/// The file: its version is known with the first value.
enum Target<W> {
    Unbegun(W, Vec<Vec<u8>>),
    Begun(Writer<W>),
    /// Only while one turns into the other.
    Between,
}

impl<W: Write> Target<W> {
    fn begin(
        &mut self,
        first: Option<&[u8]>,
        clock: &dyn Clock,
        exported: &mut Exported,
    ) -> Result<&mut Writer<W>, Error> {
        if matches!(self, Target::Unbegun(..))
            && let Target::Unbegun(out, functions) = std::mem::replace(self, Target::Between)
        {
            let of_server = first.and_then(payload::open).map_or(0, |(_, version)| version);
            let version = VERSION.max(of_server);
            let mut writer = Writer::new(out, version)?;
            writer.aux(b"redis-bits", b"64")?;
            let seconds = clock.unix_ms() / 1000;
            writer.aux(b"ctime", seconds.to_string().as_bytes())?;
            for code in &functions {
                writer.function(code)?;
            }
            exported.version = version;
            exported.functions = functions.len() as u64;
            *self = Target::Begun(writer);
        }
        match self {
            Target::Begun(writer) => Ok(writer),
            Target::Unbegun(..) | Target::Between => unreachable!("it was begun above"),
        }
    }

    fn finish(self) -> Result<W, Error> {
        match self {
            Target::Begun(writer) => Ok(writer.finish()?),
            Target::Unbegun(..) | Target::Between => unreachable!("it is begun before it is finished"),
        }
    }
}

/// Returns the texts of all libraries. A server without functions, or one that does not tell them, has none.
async fn functions(from: &Client, exported: &mut Exported) -> Result<Vec<Vec<u8>>, Error> {
    let listed = match from
        .call(b"", &[b"FUNCTION".as_slice(), b"LIST", b"WITHCODE"])
        .await
    {
        Ok(listed) => listed,
        Err(error) => match error.server_error() {
            Some(refusal) => {
                exported.functions_refused = Some(refusal.text().to_owned());
                return Ok(Vec::new());
            }
            None => return Err(error.into()),
        },
    };
    let mut codes = Vec::new();
    for library in reply::items(&listed) {
        let code = reply::pairs(library)
            .into_iter()
            .find(|(name, _)| reply::bytes(name) == Some(b"library_code"))
            .and_then(|(_, code)| reply::bytes(code));
        let code = code.ok_or(Error::Nonsense {
            command: "FUNCTION LIST",
        })?;
        codes.push(code.to_vec());
    }
    Ok(codes)
}
