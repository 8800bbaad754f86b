//! Where notifications go, and how often.

use std::path::PathBuf;
use std::time::Duration;

use super::groups::Timing;

/// Longest name of a route, in bytes: it is part of a key.
const NAME_BYTES_MAX: usize = 64;

/// Configuration of notifications.
#[derive(Clone, Debug)]
pub struct Config {
    pub routes: Vec<RouteConfig>,
    pub timing: Timing,
    /// Polling interval for failures, and for notifications to send.
    pub poll_interval: Duration,
    /// Public address of this server, for links: `https://jobs.example.com`.
    pub public_url: Option<String>,
}

impl Default for Config {
    fn default() -> Config {
        Config {
            routes: Vec::new(),
            timing: Timing::default(),
            poll_interval: Duration::from_secs(1),
            public_url: None,
        }
    }
}

/// One notification route.
#[derive(Clone, Debug)]
pub struct RouteConfig {
    pub name: String,
    /// Only failures of these queues; of all when empty.
    pub queues: Vec<String>,
    pub kind: RouteKind,
}

#[derive(Clone, Debug)]
pub enum RouteKind {
    Mail(MailConfig),
    Chat(ChatConfig),
}

/// A mail server, and the recipients.
#[derive(Clone)]
pub struct MailConfig {
    pub host: String,
    /// Defaults to the standard port for the chosen TLS mode.
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
    /// Starts in plain text and must switch to TLS.
    #[default]
    StartTls,
    /// TLS from the first byte.
    Implicit,
    /// Plain text. For a server on the same machine.
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

/// An address that accepts `{"text": ...}`, as Slack and compatible services do.
#[derive(Clone)]
pub struct ChatConfig {
    /// The URL itself is a secret.
    pub url: String,
    pub ca: Option<PathBuf>,
}

impl std::fmt::Debug for ChatConfig {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.write_str("ChatConfig(***)")
    }
}

/// Why a route is invalid.
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
