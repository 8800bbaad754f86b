//! The cold copy, as fresh as it can be had.

use anyhow::Context;
use nagaya_cold::sqlite::{Options, SqliteCold};
use nagaya_telemetry::{Clock, SystemClock};

use super::client::Client;
use super::place::{Place, User, written_at_ms};
use super::stopped::Stopped;
use crate::app::data_dir::Holder;

/// How long a running house may take to save everything.
const SAVE_MS: &[u8] = b"60000";

/// The cold tier, open for reading.
pub(super) struct Copy {
    pub(super) cold: SqliteCold,
    /// Keeps others off a folder that nobody used.
    _stopped: Option<Box<Stopped>>,
}

impl Copy {
    /// Has everything saved that was written until now, and opens it.
    pub(super) fn fresh(place: &Place) -> anyhow::Result<Copy> {
        let stopped = match place.user()? {
            User::Nobody(stopped) => {
                stopped.settle()?;
                Some(stopped)
            }
            User::House(holder) => {
                if let Err(error) = save_now(place, &holder) {
                    let age = age_of(place);
                    eprintln!("warning: the running house did not save first: {error:#}; {age}");
                }
                None
            }
        };
        let cold = SqliteCold::open_read_only(place.cold_file(), Options::default()).context("room")?;
        Ok(Copy {
            cold,
            _stopped: stopped,
        })
    }
}

fn save_now(place: &Place, holder: &Holder) -> anyhow::Result<()> {
    wait_until_saved(&mut place.connect(holder)?)
}

/// Waits until everything that anybody has written is in the cold tier.
pub(super) fn wait_until_saved(client: &mut Client) -> anyhow::Result<()> {
    match client.ask_number(&[b"ROOM.WAITCOLD", SAVE_MS, b"ALL"])? {
        0 => anyhow::bail!("saving takes longer than {} ms", String::from_utf8_lossy(SAVE_MS)),
        _ => Ok(()),
    }
}

fn age_of(place: &Place) -> String {
    match written_at_ms(&place.cold_file()) {
        Some(at_ms) => {
            let age_ms = SystemClock.unix_ms().saturating_sub(at_ms);
            format!("the copy on disk was last written {} s ago", age_ms / 1000)
        }
        None => "nobody knows how old the copy on disk is".to_owned(),
    }
}
