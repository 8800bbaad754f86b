//! The `[telemetry]` section.

use nagaya_config::{Raw, Unset, Value, choices, settings};
use std::path::PathBuf;
use std::time::Duration;
use tracing_subscriber::filter::{LevelFilter, Targets};

choices! {
    /// How log lines look.
    pub enum LogFormat {
        /// Lines for people; coloured on a terminal.
        Text = "text",
        /// One JSON object per line.
        Json = "json",
    }
}

choices! {
    /// How traces are sent.
    pub enum OtlpProtocol {
        /// OTLP over gRPC, port 4317 of most collectors.
        Grpc = "grpc",
        /// OTLP over HTTP with protobuf, port 4318 of most collectors.
        Http = "http",
    }
}

settings! {
    /// Logs and traces. Logs go to standard error.
    pub struct TelemetryConfig in "telemetry" {
        /// What is logged: one of `off`, `error`, `warn`, `info`, `debug`, `trace`, and
        /// after it, with commas between, levels of single modules.
        /// Example: `info,nagaya::http=debug`.
        log_level: LogLevel = "info", fixed, flag "--log-level";
        /// How log lines look.
        log_format: LogFormat = "text", fixed, flag "--log-format";
        /// Where traces are sent by OTLP, as an `http` or `https` URL; not set, nothing is traced. Over HTTP,
        /// `/v1/traces` is added to a URL without a path.
        otlp_endpoint: Option<OtlpEndpoint> = Unset, fixed;
        /// How they are sent.
        otlp_protocol: OtlpProtocol = "grpc", fixed;
        /// A PEM file of certificates to trust for an `https` endpoint; not set, those of the system.
        otlp_ca: Option<PathBuf> = Unset, fixed;
        /// The service name that traces carry.
        otlp_service_name: String = "nagaya", fixed;
        /// How long one export may take before its spans are dropped.
        otlp_timeout: Duration = "5s", fixed, range "100ms" to "1m";
    }
}

/// What is logged: a level for all, and levels for single modules.
#[derive(Clone, Debug, PartialEq)]
pub struct LogLevel {
    text: String,
    targets: Targets,
}

impl LogLevel {
    pub(crate) fn targets(&self) -> Targets {
        self.targets.clone()
    }
}

impl Value for LogLevel {
    const KIND: &'static str = "a level such as `\"info\"`, or levels such as `\"info,nagaya=debug\"`";

    /// Stricter than [`Targets`]'s own parser, which takes a misspelt level for a module.
    fn read(raw: &Raw) -> Option<LogLevel> {
        let text = raw.text()?.trim();
        let mut targets = Targets::new();
        for directive in text.split(',').map(str::trim) {
            targets = match directive.split_once('=') {
                Some(("", _)) => return None,
                Some((target, level)) => targets.with_target(target, level_of(level)?),
                None => targets.with_default(level_of(directive)?),
            };
        }
        Some(LogLevel {
            text: text.to_owned(),
            targets,
        })
    }

    fn write(&self) -> Raw {
        Raw::Text(self.text.clone())
    }
}

/// The address of an OTLP collector.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OtlpEndpoint(String);

impl OtlpEndpoint {
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Whether it is reached by TLS.
    pub fn is_tls(&self) -> bool {
        self.0.starts_with("https://")
    }

    /// The URL that exports over HTTP are posted to.
    pub fn for_http(&self) -> String {
        let bare = self.0.trim_end_matches('/');
        let has_path = bare.split_once("://").is_some_and(|(_, rest)| rest.contains('/'));
        if has_path {
            self.0.clone()
        } else {
            format!("{bare}/v1/traces")
        }
    }
}

impl Value for OtlpEndpoint {
    const KIND: &'static str = "a URL such as `\"http://127.0.0.1:4317\"`";

    fn read(raw: &Raw) -> Option<OtlpEndpoint> {
        let text = raw.text()?.trim();
        let rest = text
            .strip_prefix("http://")
            .or_else(|| text.strip_prefix("https://"))?;
        let allowed = |c: char| c.is_ascii_graphic();
        (!rest.is_empty() && !rest.starts_with(['/', ':']) && rest.chars().all(allowed))
            .then(|| OtlpEndpoint(text.to_owned()))
    }

    fn write(&self) -> Raw {
        Raw::Text(self.0.clone())
    }
}

fn level_of(word: &str) -> Option<LevelFilter> {
    match word.trim().to_ascii_lowercase().as_str() {
        "off" => Some(LevelFilter::OFF),
        "error" => Some(LevelFilter::ERROR),
        "warn" => Some(LevelFilter::WARN),
        "info" => Some(LevelFilter::INFO),
        "debug" => Some(LevelFilter::DEBUG),
        "trace" => Some(LevelFilter::TRACE),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tracing_subscriber::filter::LevelFilter;

    #[test]
    fn levels_may_differ_by_module_and_slips_are_refused() {
        let read = |text: &str| LogLevel::read(&Raw::from(text));
        let mixed = read("warn,nagaya::http=debug").unwrap().targets();
        assert!(mixed.would_enable("nagaya::http::server", &tracing::Level::DEBUG));
        assert!(!mixed.would_enable("nagaya::supervisor", &tracing::Level::INFO));
        assert!(mixed.would_enable("other", &tracing::Level::WARN));
        assert_eq!(
            read("INFO").unwrap().targets().default_level(),
            Some(LevelFilter::INFO)
        );
        for wrong in ["", "infoo", "info,", "=debug", "nagaya=loud"] {
            assert_eq!(read(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn endpoints_are_http_urls() {
        let check = |text: &str, good: bool| {
            assert_eq!(OtlpEndpoint::read(&Raw::from(text)).is_some(), good, "{text}");
        };
        check("http://127.0.0.1:4317", true);
        check("http://collector.internal:4317", true);
        check("https://collector:4317", true);
        check("ftp://collector", false);
        check("127.0.0.1:4317", false);
        check("http://", false);
        check("http://a b", false);
    }

    #[test]
    fn the_usual_path_is_added_for_http() {
        let for_http = |text: &str| OtlpEndpoint::read(&Raw::from(text)).unwrap().for_http();
        assert_eq!(for_http("http://h:4318"), "http://h:4318/v1/traces");
        assert_eq!(for_http("https://h/"), "https://h/v1/traces");
        assert_eq!(for_http("https://h/otlp/traces"), "https://h/otlp/traces");
    }
}
