//! `nagaya fanout get`: reads requests back from a running fan-out.

use std::io::{self, Write};
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, bail};
use nagaya_config::Loaded;
use nagaya_fanout::FanoutConfig;
use serde_json::Value;

use super::args::GetArgs;
use crate::app::banner::local_url;
use crate::http::{HttpConfig, scheme};
use crate::status::get_within;

/// Added to the requested wait, which the server bounds.
const PATIENCE: Duration = Duration::from_secs(3700);
/// More than the answers of a thousand endpoints with a megabyte each.
const ANSWER_MAX: usize = 2 << 30;

pub(super) fn get(loaded: &Loaded, args: &GetArgs) -> anyhow::Result<ExitCode> {
    let config: FanoutConfig = loaded.section();
    let http: HttpConfig = loaded.section();
    let own = || local_url(scheme(config.tls_cert.is_some()), config.listen.0);
    let url = args.url.clone().unwrap_or_else(own);
    let ca = args.ca.as_deref().or(http.ca.as_deref());
    let mut code = ExitCode::SUCCESS;
    for id in &args.ids {
        let path = path(id, args);
        let answer = get_within(&url, &path, config.token.as_ref(), ca, PATIENCE, ANSWER_MAX)?;
        match answer.status {
            200 => {
                let request: Value = serde_json::from_str(&answer.body)
                    .with_context(|| format!("what runs at {url} does not read requests back"))?;
                writeln!(io::stdout(), "{request:#}")?;
            }
            404 => {
                eprintln!("{id}: there is no such request; it has expired or never was");
                code = ExitCode::FAILURE;
            }
            status => {
                let problem: Value = serde_json::from_str(&answer.body).unwrap_or_default();
                let detail = problem["detail"].as_str().unwrap_or("no reason was given");
                bail!("{url} answered {status}: {detail}");
            }
        }
    }
    Ok(code)
}

fn path(id: &str, args: &GetArgs) -> String {
    let wait = args.wait.as_deref().unwrap_or_default();
    format!(
        "/requests/{}?wait={}&timeout={}",
        escaped(id),
        escaped(wait),
        escaped(&args.timeout)
    )
}

/// Everything but letters, digits and a few marks as `%` and two digits.
fn escaped(text: &str) -> String {
    let escape = |byte: u8| match byte {
        b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b',' => char::from(byte).to_string(),
        byte => format!("%{byte:02X}"),
    };
    text.bytes().map(escape).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_escaped() {
        assert_eq!(escaped("a b,端"), "a%20b,%E7%AB%AF");
        assert_eq!(escaped("1\r\nx: y"), "1%0D%0Ax%3A%20y");
    }
}
