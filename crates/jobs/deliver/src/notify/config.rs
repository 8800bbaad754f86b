//! Where notices go, and how often.

use std::path::PathBuf;
use std::time::Duration;

use super::groups::Timing;

/// Longest name of a route, in bytes: it is part of a key.
const NAME_BYTES_MAX: usize = 64;

/// How administrators are told.
#[derive(Clone, Debug)]
pub struct Config {
    pub routes: Vec<RouteConfig>,
    pub timing: Timing,
    /// How often to look for failures, and for notices to send.
    pub look: Duration,
    /// Where readers reach this house, for links: `https://jobs.example.com`.
    pub public_url: Option<String>,
}

impl Default for Config {
    fn default() -> Config {
        Config {
            routes: Vec::new(),
            timing: Timing::default(),
            look: Duration::from_secs(1),
            public_url: None,
        }
    }
}

/// One way to tell somebody.
#[derive(Clone, Debug)]
pub struct RouteConfig {
    pub name: String,
    /// Failures of these queues only; of all when empty.
    pub queues: Vec<String>,
    pub kind: RouteKind,
}

#[derive(Clone, Debug)]
pub enum RouteKind {
    Mail(MailConfig),
    Chat(ChatConfig),
}

/// A mail server that takes our mail, and whom it is for.
#[derive(Clone)]
pub struct MailConfig {
    pub host: String,
    /// The usual one for the sort of TLS when nothing is said.
    pub port: Option<u16>,
    pub tls: MailTls,
    /// Trusted instead of the system's certificates.
    pub ca: Option<PathBuf>,
    pub user: Option<String>,
    pub password: Option<String>,
    pub from: String,
    pub to: Vec<String>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum MailTls {
    /// Begins in the clear and must go on with TLS.
    #[default]
    StartTls,
    /// TLS from the first byte.
    Implicit,
    /// In the clear. For a server on the same machine.
    None,
}

impl std::fmt::Debug for MailConfig {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_struct("MailConfig")
            .field("host", &self.host)
            .field("from", &self.from)
            .field("to", &self.to)
            .finish_non_exhaustive()
    }
}

/// An address that takes `{"text": ...}`, as Slack and those like it do.
#[derive(Clone)]
pub struct ChatConfig {
    /// A secret by itself.
    pub url: String,
    pub ca: Option<PathBuf>,
}

impl std::fmt::Debug for ChatConfig {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.write_str("ChatConfig(***)")
    }
}

/// What is wrong with a route.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("notification route {route}: {why}")]
pub struct ConfigError {
    pub route: String,
    pub why: String,
}

impl Config {
    pub(super) fn check(&self) -> Result<(), ConfigError> {
        for (at, route) in self.routes.iter().enumerate() {
            let wrong = |why: &str| {
                Err(ConfigError {
                    route: route.name.clone(),
                    why: why.to_owned(),
                })
            };
            if route.name.is_empty() || route.name.len() > NAME_BYTES_MAX {
                return wrong("needs a name of 1 to 64 bytes");
            }
            if self.routes[..at].iter().any(|other| other.name == route.name) {
                return wrong("there are two of that name");
            }
        }
        Ok(())
    }
}
