//! `nagaya room erase`: a tag goes from memory and from disk.
//!
//! Beside a running server the server removes the keys itself, so that its log knows of it, and saves; then the
//! tombstones and the tag's row go from the file. On a folder that is not in use, the log is saved first and
//! its files are removed with the tag: old writes of it would still be in them.

use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::bail;
use clap::Args;
use nagaya_cold::sqlite::{Options, SqliteCold};
use nagaya_resp::Frame;
use nagaya_tiering::cold::{ColdError, ColdTier};
use nagaya_tiering::tag::tag_of;

use super::client::Client;
use super::confirm::{self, Confirmation};
use super::copy::wait_until_saved;
use super::room_data::{DataUse, RoomData};
use super::size::{count, human, shown};
use super::stopped::Stopped;
use crate::cli::GlobalArgs;

/// How often something that others use at the moment is tried, and the pause between.
const TRIES: usize = 20;
const PAUSE: Duration = Duration::from_millis(100);

#[derive(Args)]
pub(crate) struct EraseArgs {
    /// The tag to erase
    tag: OsString,
    /// The data folder [default: ./nagaya-data]
    #[arg(long, value_name = "DIR")]
    data: Option<String>,
    /// Do not ask
    #[arg(long)]
    yes: bool,
}

/// What there is of a tag.
struct Stored {
    keys: u64,
    bytes: u64,
}

pub(super) fn erase(global: &GlobalArgs, args: EraseArgs) -> anyhow::Result<ExitCode> {
    let room_data = RoomData::new(global, args.data.clone())?;
    let tag = tag_of(args.tag.as_bytes());
    match room_data.user()? {
        DataUse::Stopped(stopped) => from_folder(&stopped, tag, args.yes),
        DataUse::Running(holder) => from_house(&room_data, room_data.connect(&holder)?, tag, args.yes),
    }
}

fn from_folder(stopped: &Stopped, tag: &[u8], yes: bool) -> anyhow::Result<ExitCode> {
    stopped.settle()?;
    let cold = stopped.open()?;
    let row = cold.tag(tag)?;
    let stored = Stored {
        keys: row.as_ref().map_or(0, |row| row.keys),
        bytes: row.as_ref().map_or(0, |row| row.bytes),
    };
    if let Some(refused) = refusal(tag, &stored, yes)? {
        return Ok(refused);
    }
    let keys = cold.erase(tag)?;
    empty_wal(&cold)?;
    let log_is_gone = stopped.discard_log(&cold)?;
    tell(tag, keys);
    if !log_is_gone {
        eprintln!("the write-ahead log was kept and may hold earlier writes of the tag");
    }
    Ok(ExitCode::SUCCESS)
}

fn from_house(room_data: &RoomData, mut client: Client, tag: &[u8], yes: bool) -> anyhow::Result<ExitCode> {
    let stored = ask_stored(&mut client, tag)?;
    if let Some(refused) = refusal(tag, &stored, yes)? {
        return Ok(refused);
    }
    let keys = client.ask_number(&[b"ROOM.ERASE", tag])?;
    let cold = SqliteCold::open(room_data.cold_file(), Options::default())?;
    for _ in 0..TRIES {
        wait_until_saved(&mut client)?;
        let checkpoint = nagaya_engine::checkpoint(&cold)?;
        if !cold.forget(tag, checkpoint)? {
            empty_wal(&cold)?;
            tell(tag, keys.unsigned_abs());
            eprintln!("the running server's write-ahead log may hold earlier writes of it for a while");
            return Ok(ExitCode::SUCCESS);
        }
        std::thread::sleep(PAUSE);
    }
    bail!(
        "{} of the tag {} were erased, but somebody writes to it again and again: stop that and erase once more",
        count(keys.unsigned_abs(), "key"),
        shown(tag)
    )
}

/// Asks for confirmation unless `yes`; returns the exit code when the answer is no.
fn refusal(tag: &[u8], stored: &Stored, yes: bool) -> anyhow::Result<Option<ExitCode>> {
    if yes {
        return Ok(None);
    }
    let (keys, bytes) = (count(stored.keys, "key"), human(stored.bytes));
    let question = format!("Erase the tag {} with {keys} ({bytes} on disk)?", shown(tag));
    Ok(match confirm::ask(&question)? {
        Confirmation::Yes => None,
        Confirmation::No => {
            eprintln!("nothing was erased");
            Some(ExitCode::FAILURE)
        }
        Confirmation::NoTerminal => {
            eprintln!("error: there is no terminal to ask on; pass --yes to erase without asking");
            Some(ExitCode::from(2))
        }
    })
}

fn ask_stored(client: &mut Client, tag: &[u8]) -> anyhow::Result<Stored> {
    let reply = client.ask(&[b"ROOM.STATUS", tag])?;
    let fields: Vec<Frame> = match reply {
        Frame::Array(fields) => fields,
        Frame::Map(pairs) => pairs
            .into_iter()
            .flat_map(|(name, value)| [name, value])
            .collect(),
        other => bail!("the server answered ROOM.STATUS with {other:?}"),
    };
    let number = |name: &str| {
        fields.chunks(2).find_map(|pair| match pair {
            [Frame::Bulk(found), Frame::Int(number)] if found == name.as_bytes() => {
                Some(number.unsigned_abs())
            }
            _ => None,
        })
    };
    let (hot, cold) = (number("hot_keys").unwrap_or(0), number("cold_keys").unwrap_or(0));
    Ok(Stored {
        // What is in memory is on disk too, or will be.
        keys: hot.max(cold),
        bytes: number("cold_bytes").unwrap_or(0),
    })
}

/// Leaves no earlier state of a page in SQLite's own log.
fn empty_wal(cold: &SqliteCold) -> anyhow::Result<()> {
    for _ in 0..TRIES {
        match cold.empty_wal() {
            Err(ColdError::Unavailable(_)) => std::thread::sleep(PAUSE),
            done => return Ok(done?),
        }
    }
    eprintln!("SQLite's own log could not be emptied while others read; it may hold the erased values");
    Ok(())
}

fn tell(tag: &[u8], keys: u64) {
    match keys {
        0 => eprintln!("nothing was stored under the tag {}", shown(tag)),
        _ => eprintln!("erased {} of the tag {}", count(keys, "key"), shown(tag)),
    }
}
