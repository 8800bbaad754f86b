//! A current copy of the data in the cold tier.

use anyhow::Context;
use nagaya_clock::{Clock, SystemClock};
use nagaya_cold::sqlite::{Options, SqliteCold};

use super::client::Client;
use super::room_data::{DataUse, RoomData, written_at_ms};
use super::stopped::Stopped;
use crate::app::data_dir::Holder;

/// How long a running server may take to save everything.
const SAVE_MS: &[u8] = b"60000";

/// The cold tier, open for reading.
pub(super) struct Copy {
    pub(super) cold: SqliteCold,
    /// Holds the lock of a folder that was not in use.
    _stopped: Option<Box<Stopped>>,
}

impl Copy {
    /// Has everything saved that was written until now, and opens it.
    pub(super) fn fresh(room_data: &RoomData) -> anyhow::Result<Copy> {
        let stopped = match room_data.user()? {
            DataUse::Stopped(stopped) => {
                stopped.settle()?;
                Some(stopped)
            }
            DataUse::Running(holder) => {
                if let Err(error) = save_now(room_data, &holder) {
                    let age = age_of(room_data);
                    eprintln!("warning: the running server did not save first: {error:#}; {age}");
                }
                None
            }
        };
        let cold = SqliteCold::open_read_only(room_data.cold_file(), Options::default()).context("room")?;
        Ok(Copy {
            cold,
            _stopped: stopped,
        })
    }
}

fn save_now(room_data: &RoomData, holder: &Holder) -> anyhow::Result<()> {
    wait_until_saved(&mut room_data.connect(holder)?)
}

/// Waits until all writes are in the cold tier.
pub(super) fn wait_until_saved(client: &mut Client) -> anyhow::Result<()> {
    match client.ask_number(&[b"ROOM.WAITCOLD", SAVE_MS, b"ALL"])? {
        0 => anyhow::bail!("saving takes longer than {} ms", String::from_utf8_lossy(SAVE_MS)),
        _ => Ok(()),
    }
}

fn age_of(room_data: &RoomData) -> String {
    match written_at_ms(&room_data.cold_file()) {
        Some(at_ms) => {
            let age_ms = SystemClock.unix_ms().unsigned_abs().saturating_sub(at_ms);
            format!("the copy on disk was last written {} s ago", age_ms / 1000)
        }
        None => "nobody knows how old the copy on disk is".to_owned(),
    }
}
