use std::io;

use nagaya_redis_client as redis;

/// Why moving or comparing stopped.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error(transparent)]
    File(#[from] nagaya_rdb::Error),
    #[error(transparent)]
    Redis(#[from] redis::Error),
    #[error("the server refused {command} with: {reply}")]
    Refused { command: &'static str, reply: String },
    #[error("the file could not be read")]
    Read(#[source] io::Error),
    #[error("the file could not be written")]
    Write(#[from] io::Error),
    #[error("the value of key {key} cannot be written into the file")]
    Value {
        key: String,
        #[source]
        source: nagaya_rdb::KeyError,
    },
    #[error("line {line}: {what}")]
    Line { line: u64, what: String },
    #[error("the append-only folder {folder} cannot be imported: {what}")]
    AppendOnly { folder: String, what: String },
    #[error("the server's answer to {command} makes no sense")]
    Nonsense { command: &'static str },
    #[error("the file has keys in {databases} databases, and only one can be taken: choose it by its number")]
    SeveralDatabases { databases: usize },
}

impl Error {
    /// Returns the message with all its causes.
    pub fn chain(&self) -> String {
        let mut text = self.to_string();
        let mut cause = std::error::Error::source(self);
        while let Some(error) = cause {
            text.push_str(": ");
            text.push_str(&error.to_string());
            cause = error.source();
        }
        text
    }
}
