//! The running server that the tools speak to.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::Context;
use clap::Args;
use nagaya_client::{Client, RetryPolicy};
use nagaya_config::{Loaded, Secret};

use crate::app::banner::local_url;
use crate::http::HttpConfig;

/// The variable that names the server, for shells in which every command is to speak to it.
const URL_VARIABLE: &str = "NAGAYA_URL";

/// The variable that holds a token, which does not belong on a command line.
const TOKEN_VARIABLE: &str = "NAGAYA_TOKEN";

#[derive(Args)]
pub(crate) struct ConnectArgs {
    /// Where the server listens [default: $NAGAYA_URL, or http.listen]
    #[arg(long, value_name = "URL")]
    pub(crate) url: Option<String>,
    /// Trust the certificates of this PEM file [default: http.ca]
    #[arg(long, value_name = "FILE")]
    pub(crate) ca: Option<PathBuf>,
}

/// Prepares a client for the server of the flags and settings. The token comes from the environment or is the
/// one of the settings.
pub(crate) fn connect(loaded: &Loaded, args: &ConnectArgs) -> anyhow::Result<Client> {
    let http: HttpConfig = loaded.section();
    let url = url(args.url.clone(), &http);
    let retry = RetryPolicy {
        attempts: 3,
        max: Duration::from_secs(2),
        ..RetryPolicy::default()
    };
    let mut builder = Client::builder(&url).retry(retry);
    if let Some(token) = token(&http) {
        builder = builder.token(token.reveal());
    }
    if let Some(ca) = args.ca.as_ref().or(http.ca.as_ref()) {
        builder = builder.ca(ca);
    }
    builder.build().context("the server cannot be spoken to")
}

/// The server's URL: of the flag, of the environment, or by the settings.
pub(crate) fn url(flag: Option<String>, http: &HttpConfig) -> String {
    let variable = || std::env::var(URL_VARIABLE).ok().filter(|url| !url.is_empty());
    flag.or_else(variable)
        .unwrap_or_else(|| local_url(http.scheme(), http.listen.0))
}

/// The token of the environment, or the server's own of the settings.
pub(crate) fn token(http: &HttpConfig) -> Option<Secret> {
    let told = std::env::var(TOKEN_VARIABLE)
        .ok()
        .filter(|token| !token.is_empty());
    told.map(Secret::new).or_else(|| http.token.clone())
}
