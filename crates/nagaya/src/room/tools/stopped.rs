//! A data folder that is not in use: its log is brought into the cold tier by an engine that listens nowhere.

use std::path::PathBuf;
use std::sync::Arc;

use anyhow::{Context, bail};
use nagaya_cold::sqlite::{Options, SqliteCold};
use nagaya_engine::{Bound, Engine, RoomConfig, Storage};
use nagaya_wal::{Inspection, OsFiles, Position, ReadOnlyFiles};

use super::room_data::RoomData;
use super::size::count;
use crate::app::data_dir::DataDir;

/// A folder locked by this process until the value is dropped.
pub(super) struct Stopped {
    _lock: DataDir,
    cold_file: PathBuf,
    log_folder: PathBuf,
    room: RoomConfig,
}

impl Stopped {
    pub(super) fn new(lock: DataDir, room_data: &RoomData) -> Stopped {
        Stopped {
            _lock: lock,
            cold_file: room_data.cold_file(),
            log_folder: room_data.log_folder(),
            room: room_data.room.clone(),
        }
    }

    /// Brings everything that the log has into the cold tier, as the next start of the server would do.
    pub(super) fn settle(&self) -> anyhow::Result<()> {
        let before = self.unsaved()?;
        match before {
            Some(0) => return Ok(()),
            Some(records) => eprintln!(
                "the server was not stopped in order: {} of its write-ahead log are saved first",
                count(records, "record")
            ),
            None => eprintln!("the copy on disk is made from the write-ahead log first"),
        }
        let storage = Storage::new(Arc::new(self.open()?), self.log_folder.clone());
        let config = RoomConfig {
            io_threads: 1,
            ..self.room.clone()
        };
        let started = Bound::nowhere(config).start(Some(storage));
        let engine = started.context("run `nagaya room doctor` to see what is wrong")?;
        let stats = engine.stats();
        Engine::stop(engine);
        if let Some(failure) = stats.failure() {
            bail!("the write-ahead log could not be saved: {failure}");
        }
        match self.unsaved()? {
            Some(0) => Ok(()),
            _ => bail!("the write-ahead log could not be saved; start the server and look at what it says"),
        }
    }

    /// Opens the cold tier for changes.
    pub(super) fn open(&self) -> anyhow::Result<SqliteCold> {
        let options = Options {
            decode: self.room.decode,
            ..Options::default()
        };
        SqliteCold::open(&self.cold_file, options).context("room")
    }

    /// Removes the log, all of which must be saved; returns whether it was.
    pub(super) fn discard_log(&self, cold: &SqliteCold) -> anyhow::Result<bool> {
        let checkpoint = Position(nagaya_engine::checkpoint(cold)?);
        Ok(nagaya_wal::discard(&self.log_folder, &OsFiles, checkpoint)?)
    }

    /// Counts the records of the log that the cold tier may lack; nothing when there is no cold tier yet, or
    /// an older one that must be brought up to date.
    fn unsaved(&self) -> anyhow::Result<Option<u64>> {
        if !self.cold_file.exists() {
            return Ok(None);
        }
        let cold = match SqliteCold::open_read_only(&self.cold_file, Options::default()) {
            Err(nagaya_cold::OpenError::Schema(nagaya_cold::SchemaError::Older { .. })) => return Ok(None),
            opened => opened.context("room")?,
        };
        let checkpoint = Position(nagaya_engine::checkpoint(&cold)?);
        let Inspection {
            records_after,
            damage,
            ..
        } = nagaya_wal::inspect(&self.log_folder, &ReadOnlyFiles, checkpoint)?;
        match damage {
            Some(damage) => bail!("{damage}; run `nagaya room doctor` to see what can be done"),
            None => Ok(Some(records_after)),
        }
    }
}
