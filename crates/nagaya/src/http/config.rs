//! The `[http]` section.

use std::time::Duration;

use nagaya_config::{ByteSize, Listen, Secret, Unset, settings};

settings! {
    /// The HTTP listener.
    pub struct HttpConfig in "http" {
        /// Where it listens. Any address but loopback needs a token or `house.insecure`.
        listen: Listen = "127.0.0.1:7400", fixed, flag "--http-listen";
        /// The token that callers send as `Authorization: Bearer TOKEN`; it may do everything.
        /// Tokens made with `nagaya token create` work beside it: `admin` does everything,
        /// `read` may look. If it is not set, any client without a token may do
        /// everything, even if tokens exist, except web pages of another origin; a token
        /// that is sent counts for what it is. `/healthz` and `/readyz` are open in any case:
        /// what probes a house seldom has credentials.
        token: Option<Secret> = Unset, fixed;
        /// How many connections may be open at once. One more is answered 503 and closed.
        connections_max: usize = 1024, fixed, range 1 to 1000000, unit "connections";
        /// How long a client may take to send the head of its request, and how long a
        /// connection may stay idle. After it the connection is closed.
        head_timeout: Duration = "10s", fixed, range "100ms" to "10m";
        /// How long a client may take nothing of what is sent to it. After it the connection is cut.
        write_timeout: Duration = "30s", fixed, range "100ms" to "10m";
        /// How large the head of a request may be. A larger one is answered 431.
        head_max: ByteSize = "16kb", fixed, range "8kb" to "1mb";
        /// How large the body of a request may be. A larger one is answered 413.
        body_max: ByteSize = "2mb", fixed, range "1kb" to "1gb";
    }
}
