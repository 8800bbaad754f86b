//! Errors before a request is accepted.

/// Why the service could not be set up or a request not be accepted.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The settings are invalid; the text says which and why.
    #[error("{0}")]
    Config(String),
    #[error("{file}: {message}")]
    SerininFile { file: String, message: String },
    #[error("the store cannot be used: {0}")]
    Store(#[from] crate::store::StoreError),
    #[error("tls to endpoints cannot be set up: {0}")]
    Tls(String),
}
