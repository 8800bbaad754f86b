//! Where the data is, and who uses it.

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
pub(super) struct Place {
    pub(super) data: PathBuf,
    pub(super) room: RoomConfig,
}

/// Who uses the data.
pub(super) enum User {
    /// Nobody but this tool.
    Nobody(Box<Stopped>),
    House(Holder),
}

impl Place {
    pub(super) fn new(global: &GlobalArgs, data: Option<String>) -> anyhow::Result<Place> {
        let flags = data.map(|value| Flag {
            name: "--data".to_owned(),
            key: "house.data".to_owned(),
            value,
        });
        let loaded = settings::load(global, flags.into_iter().collect())?;
        let house: HouseConfig = loaded.section();
        Ok(Place {
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

    /// Tells who uses the data, and locks it if nobody does.
    pub(super) fn user(&self) -> anyhow::Result<User> {
        let found = DataDir::find(&self.data)?;
        if !self.cold_file().exists() && !self.log_folder().exists() {
            bail!(
                "{} holds no data of the room; name another folder with --data",
                self.data.display()
            );
        }
        Ok(match found {
            Found::Free(data) => User::Nobody(Box::new(Stopped::new(data, self))),
            Found::Used(holder) => User::House(holder),
        })
    }

    /// Connects to the house that uses the data.
    pub(super) fn connect(&self, holder: &Holder) -> anyhow::Result<Client> {
        let address = holder.room.context(
            "the data folder is in use, but not by a house that says where it listens; wait until it is up",
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
