//! The `[room]` section: what the engine listens on and how much it takes.

use std::path::PathBuf;
use std::time::Duration;

use nagaya_config::{ByteSize, Listen, Secret, Unset, settings};

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
        /// Threads that serve connections; 0 chooses by the number of cores.
        io_threads: u32 = 0, fixed, range 0 to 64;
        /// Parts the data is cut into, each with a lock of its own; 0 chooses by the number of threads.
        shards: u32 = 0, fixed, range 0 to 256;
        /// Most connections at a time; further ones are told so and closed.
        max_clients: u32 = 10000, fixed, range 1 to 1000000;
        /// Replies that may wait for a client that does not read them, before its connection is closed.
        output_buffer_max: ByteSize = "1gb", fixed, range "1mb" to "16gb";
        /// How long a connection may be idle before it is closed; 0 for ever.
        idle_timeout: Duration = "0s", fixed, range "0s" to "365d";
    }
}
