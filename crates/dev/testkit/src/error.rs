use std::io;
use std::process::ExitStatus;

/// Why a server could not be started, reached or ended.
///
/// The servers of this crate turn it into a panic; it is a value only for tests
/// that drive a [`Process`](crate::Process) by hand.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("`{binary}` was not found; install it with: apt-get install {package}")]
    MissingBinary {
        binary: &'static str,
        package: &'static str,
    },

    #[error("could not {action}: {source}")]
    Io {
        action: String,
        #[source]
        source: io::Error,
    },

    #[error("{name} ended before it was ready ({status}); the end of its output:\n{output}")]
    Exited {
        name: String,
        status: ExitStatus,
        output: String,
    },

    #[error("{name} was not ready after {waited_s} s ({reason}); the end of its output:\n{output}")]
    NotReady {
        name: String,
        waited_s: u64,
        reason: String,
        output: String,
    },

    #[error("{name} had not ended after {waited_s} s")]
    StillRunning { name: String, waited_s: u64 },
}

impl Error {
    pub(crate) fn io(action: impl Into<String>, source: io::Error) -> Error {
        Error::Io {
            action: action.into(),
            source,
        }
    }

    /// Whether another process took the port between our look and the server's
    /// bind, so that a start on another port may succeed.
    pub(crate) fn is_port_taken(&self) -> bool {
        match self {
            Error::Exited { output, .. } => output.to_lowercase().contains("already in use"),
            _ => false,
        }
    }
}
