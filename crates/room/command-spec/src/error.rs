//! Why a command failed, in the words Redis's clients know.

use std::borrow::Cow;

/// A failure that becomes an error reply.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CommandError {
    #[error("WRONGTYPE Operation against a key holding the wrong kind of value")]
    WrongType,
    #[error("ERR syntax error")]
    Syntax,
    #[error("ERR value is not an integer or out of range")]
    NotInteger,
    #[error("ERR value is not a valid float")]
    NotFloat,
    #[error("ERR value is out of range")]
    OutOfRange,
    #[error("ERR value is out of range, must be positive")]
    MustBePositive,
    #[error("ERR no such key")]
    NoSuchKey,
    #[error("ERR index out of range")]
    IndexOutOfRange,
    /// Any other failure with the usual prefix.
    #[error("ERR {0}")]
    Err(Cow<'static, str>),
    /// A failure with a prefix of its own, complete.
    #[error("{0}")]
    Coded(Cow<'static, str>),
}

impl CommandError {
    /// Makes a failure with the prefix `ERR`.
    pub fn err(text: impl Into<Cow<'static, str>>) -> CommandError {
        CommandError::Err(text.into())
    }

    /// Makes a failure whose text carries its own prefix.
    pub fn coded(text: impl Into<Cow<'static, str>>) -> CommandError {
        CommandError::Coded(text.into())
    }

    /// Says that a (sub)command got the wrong number of arguments; `name` in lower case, `|` before a subcommand.
    pub fn wrong_arity(name: &str) -> CommandError {
        CommandError::Err(format!("wrong number of arguments for '{name}' command").into())
    }
}
