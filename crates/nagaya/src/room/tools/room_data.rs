//! The data folder of a room, and which process uses it.

use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use nagaya_config::Flag;
use nagaya_engine::RoomConfig;

use super::client::Client;
use super::stopped::Stopped;
use crate::app::banner::reachable;
use crate::app::data_dir::{DataDir, Found, Holder};
use crate::app::settings::{self, HouseConfig};
use crate::cli::GlobalArgs;
use crate::room::embedded::{COLD_FILE, LOG_FOLDER, ROOM_FOLDER};

/// The room's part of a data folder, and the settings that say how it is used.
pub(super) struct RoomData {
    pub(super) data: PathBuf,
    pub(super) room: RoomConfig,
}

/// Which process uses the data.
pub(super) enum DataUse {
    /// Not in use; locked by this tool.
    Stopped(Box<Stopped>),
    /// By a running server.
    Running(Holder),
}

impl RoomData {
    pub(super) fn new(global: &GlobalArgs, data: Option<String>) -> anyhow::Result<RoomData> {
        let flags = data.map(|value| Flag {
            name: "--data".to_owned(),
            key: "house.data".to_owned(),
            value,
        });
        let loaded = settings::load(global, flags.into_iter().collect())?;
        let house: HouseConfig = loaded.section();
        Ok(RoomData {
            data: house.data,
            room: loaded.section(),
        })
    }

    pub(super) fn folder(&self) -> PathBuf {
        self.data.join(ROOM_FOLDER)
    }

    pub(super) fn cold_file(&self) -> PathBuf {
        self.folder().join(COLD_FILE)
    }

    pub(super) fn log_folder(&self) -> PathBuf {
        self.folder().join(LOG_FOLDER)
    }

    /// Returns which process uses the data, and locks the folder if none does.
    pub(super) fn user(&self) -> anyhow::Result<DataUse> {
        let found = DataDir::find(&self.data)?;
        if !self.cold_file().exists() && !self.log_folder().exists() {
            bail!(
                "{} holds no data of the room; name another folder with --data",
                self.data.display()
            );
        }
        Ok(match found {
            Found::Free(data) => DataUse::Stopped(Box::new(Stopped::new(data, self))),
            Found::Used(holder) => DataUse::Running(holder),
        })
    }

    /// Connects to the server that uses the data.
    pub(super) fn connect(&self, holder: &Holder) -> anyhow::Result<Client> {
        let address = holder.room.context(
            "the data folder is in use, but not by a server that says where it listens; wait until it is up",
        )?;
        Client::connect(reachable(address), self.room.password.as_ref())
    }
}

/// Returns when a file or its companion was last written, in Unix milliseconds.
pub(super) fn written_at_ms(path: &Path) -> Option<u64> {
    let at = |path: &Path| {
        let modified = path.metadata().ok()?.modified().ok()?;
        let since = modified.duration_since(std::time::UNIX_EPOCH).ok()?;
        u64::try_from(since.as_millis()).ok()
    };
    let mut companion = path.as_os_str().to_owned();
    companion.push("-wal");
    at(path).max(at(Path::new(&companion)))
}
