//! What can go wrong before a request is on its way.

/// Why something could not be set up or taken.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The settings cannot be used; the text says which and why.
    #[error("{0}")]
    Config(String),
    #[error("{file}: {message}")]
    SerininFile { file: String, message: String },
    #[error("the store cannot be used: {0}")]
    Store(#[from] crate::store::StoreError),
    #[error("tls to endpoints cannot be set up: {0}")]
    Tls(String),
}
