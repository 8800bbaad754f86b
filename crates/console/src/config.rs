//! What the console has to know about the server.

/// What the console has to know about the server.
#[derive(Clone, Debug, Default)]
pub struct ConsoleConfig {
    /// Whether the server asks for a token: then every user signs in first.
    pub asks_token: bool,
    /// Whether browsers reach the server by TLS: then its cookies are for TLS alone.
    pub is_https: bool,
    pub version: &'static str,
}
