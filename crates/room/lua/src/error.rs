//! Why the scripting environment refused something.

/// An error outside a running script. The text is what the client sees, after the `ERR ` prefix.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// A script did not compile.
    #[error("Error compiling script (new function): {0}")]
    CompileScript(String),
    /// A library did not compile.
    #[error("Error compiling function: {0}")]
    CompileLibrary(String),
    /// A library's top level failed.
    #[error("Error registering functions: {0}")]
    Register(String),
    /// A library's top level registered nothing.
    #[error("No functions registered")]
    NoFunctions,
    /// The first line of a script or library is not acceptable.
    #[error("{0}")]
    Shebang(String),
    /// A Lua state could not be made.
    #[error("not enough memory for a Lua state")]
    OutOfMemory,
}
