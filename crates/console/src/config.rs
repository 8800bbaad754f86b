//! What the console has to know about the server.

/// What the console has to know about the server.
#[derive(Clone, Debug, Default)]
pub struct ConsoleConfig {
    /// Whether the server asks for a token: then every user signs in first.
    pub asks_token: bool,
    /// Answer only to names that lead to this machine in every resolver (`localhost` and addresses). A server
    /// that asks for no token needs it: else a page could point a name of its own at loopback and read along.
    pub local_names_only: bool,
    pub version: &'static str,
}
