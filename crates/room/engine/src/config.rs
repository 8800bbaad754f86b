//! The `[room]` section: what the engine listens on and how much it takes.

use std::path::PathBuf;
use std::time::Duration;

use nagaya_config::{ByteSize, Listen, Raw, Secret, Unset, Value, choices, settings};
use nagaya_exec::redis_version::RedisVersion;

choices! {
    /// When a write is safe on the disk.
    pub enum Fsync {
        /// Before it is acknowledged.
        Always = "always",
        /// A second after it at the latest. The end of the process alone loses nothing.
        EverySec = "everysec",
        /// When the operating system likes. The end of the process alone loses nothing.
        No = "no",
    }
}

choices! {
    /// Who may use a command that looks inside the server.
    pub enum Allowed {
        /// Nobody.
        No = "no",
        /// Connections from this machine.
        Local = "local",
        /// Everybody whose rights allow it.
        Yes = "yes",
    }
}

/// The release of Redis that clients are told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ToldVersion(pub RedisVersion);

impl Value for ToldVersion {
    const KIND: &'static str = "a release such as `\"7.4.0\"`";

    fn read(raw: &Raw) -> Option<ToldVersion> {
        RedisVersion::parse(raw.text()?.trim()).map(ToldVersion)
    }

    fn write(&self) -> Raw {
        Raw::Text(self.0.to_string())
    }
}

settings! {
    /// The Redis protocol: where clients connect and what they may use.
    pub struct RoomConfig in "room" {
        /// Where Redis clients connect.
        listen: Listen = "127.0.0.1:6380", fixed, flag "--room-listen";
        /// A unix socket for clients on this machine, beside the address above.
        unix_socket: Option<PathBuf> = Unset, fixed;
        /// A second address, spoken to through TLS. Needs `tls_cert` and `tls_key`.
        tls_listen: Option<Listen> = Unset, fixed;
        /// The server's certificate chain, PEM.
        tls_cert: Option<PathBuf> = Unset, fixed;
        /// The private key of the certificate, PEM.
        tls_key: Option<PathBuf> = Unset, fixed;
        /// Certificates of authorities, PEM. Set, clients must show a certificate that one of them signed.
        tls_client_ca: Option<PathBuf> = Unset, fixed;
        /// The password of the default user; clients give it with AUTH. Not set, none is asked for.
        password: Option<Secret> = Unset, fixed;
        /// A file with ACL users, as Redis writes it: read at the start and by ACL LOAD, written by ACL SAVE. It
        /// must exist; an empty one will do. Not set, the embedded engine keeps its users in the data folder
        /// and saves them with every change, unless `persist` is off. A `password` is `default`'s only one,
        /// whatever the file says.
        acl_file: Option<PathBuf> = Unset, fixed;
        /// The release of Redis that INFO, HELLO and scripts tell, for libraries that switch features by it. Not
        /// set, the one whose commands are there (COMPAT.md); on Redis servers 7.0.15.
        redis_version: Option<ToldVersion> = Unset, fixed;
        /// Who may use DEBUG, which tests need and nobody else.
        enable_debug_command: Allowed = "no", fixed;
        /// Threads that serve connections; 0 chooses by the number of cores.
        io_threads: u32 = 0, fixed, range 0 to 64;
        /// Parts the data is cut into, each with a lock of its own; 0 chooses by the number of threads.
        shards: u32 = 0, fixed, range 0 to 256;
        /// Databases that clients may SELECT, each with its own keys. On Redis servers there is one.
        databases: u32 = 16, fixed, range 1 to 1024;
        /// Most connections at a time; further ones are told so and closed.
        max_clients: u32 = 10000, fixed, range 1 to 1000000;
        /// Replies that may wait for a client that does not read them, before its connection is closed.
        output_buffer_max: ByteSize = "1gb", fixed, range "1mb" to "16gb";
        /// Keep the data on disk. Switched off, it is gone when the process ends: a cache.
        persist: bool = true, fixed;
        /// Memory that the room's data, overhead and buffers may take; tags that were not used for long make room by
        /// staying only on disk. What other services hold is not counted. 0 sets no limit.
        max_memory: ByteSize = "0b", fixed, range "0b" to "16384gb";
        /// Tags that nobody has used for this long leave memory even when there is room; 0: they stay.
        idle_after: Duration = "0s", fixed, range "0s" to "3650d";
        /// How far the copy on disk may lag behind memory. The write-ahead log covers the time between.
        max_staleness: Duration = "5s", fixed, range "100ms" to "1h";
        /// When a write is safe on the disk.
        fsync: Fsync = "everysec", fixed;
        /// A write-ahead log longer than this is a reason to save before `max_staleness` is over.
        log_max: ByteSize = "256mb", fixed, range "1mb" to "1024gb";
        /// Refuse keys without a hash tag in braces.
        require_hash_tag: bool = false, fixed;
        /// Keys whose names begin with one of these never leave memory.
        pinned: Vec<String> = [""; 0], fixed;
        /// Keep values decoded as JSON beside the copy on disk, to be read with SQL.
        decode: bool = false, fixed;
        /// How long a connection may be idle before it is closed; 0 for ever.
        idle_timeout: Duration = "0s", fixed, range "0s" to "365d";
    }
}

impl RoomConfig {
    /// Returns the beginnings of the names of keys that never leave memory.
    pub(crate) fn pinned_prefixes(&self) -> Vec<Vec<u8>> {
        self.pinned
            .iter()
            .map(|prefix| prefix.clone().into_bytes())
            .collect()
    }
}
