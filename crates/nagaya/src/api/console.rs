//! The web console beside the API that it is a client of.

use axum::Router;
use nagaya_console::{Console, ConsoleConfig, InProcess};

use crate::app::up::VERSION;
use crate::http::HttpConfig;

/// The pages, over the router that answers requests from outside as well.
pub(crate) fn routes(api: Router, config: &HttpConfig) -> Router {
    let config = ConsoleConfig {
        asks_token: config.token.is_some(),
        is_https: config.tls_cert.is_some(),
        version: VERSION,
    };
    Console::new(InProcess::new(api), config).routes()
}
