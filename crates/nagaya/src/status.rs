//! `nagaya status`: asks a running house how it is.

use std::fmt::Write as _;
use std::io::{self, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, bail, ensure};
use nagaya_config::{Flag, Secret};
use serde_json::json;

use crate::banner::local_url;
use crate::cli::GlobalArgs;
use crate::http::{HttpConfig, Readyz, Version};
use crate::jobs_tools::connect::token;
use crate::readiness::{Component, State};
use crate::settings;
use crate::terminal::{self, Paint};

/// How long connecting, sending and each read may take.
const PATIENCE: Duration = Duration::from_secs(5);
/// The largest answer that is read, in bytes; far more than a house says.
const ANSWER_MAX: u64 = 1 << 20;

/// An HTTP answer: status and body.
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) body: String,
}

pub(crate) fn status(
    global: &GlobalArgs,
    flags: Vec<Flag>,
    url: Option<String>,
    as_json: bool,
) -> anyhow::Result<ExitCode> {
    let config: HttpConfig = settings::load(global, flags)?.section();
    let url = url.unwrap_or_else(|| local_url(config.listen.0));
    let token = token(&config);
    let readyz: Readyz = match get(&url, "/readyz", token.as_ref())? {
        Answer {
            status: 200 | 503,
            body,
        } => serde_json::from_str(&body).with_context(|| format!("what runs at {url} is not nagaya"))?,
        answer => bail!(
            "{url}/readyz answered {}; is it nagaya that runs there?",
            answer.status
        ),
    };
    let version = match get(&url, "/version", token.as_ref())? {
        Answer { status: 200, body } => Some(serde_json::from_str::<Version>(&body)?.version),
        _ => None,
    };
    let text = match as_json {
        true => as_json_text(&url, version.as_deref(), &readyz),
        false => as_table(&url, version.as_deref(), &readyz, terminal::stdout()),
    };
    io::stdout().write_all(text.as_bytes())?;
    Ok(if readyz.state == State::Ready {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

fn as_json_text(url: &str, version: Option<&str>, readyz: &Readyz) -> String {
    let text = json!({
        "url": url,
        "version": version,
        "state": readyz.state,
        "uptime_seconds": readyz.uptime_seconds,
        "components": readyz.components,
    });
    format!("{text:#}\n")
}

fn as_table(url: &str, version: Option<&str>, readyz: &Readyz, paint: Paint) -> String {
    let mut rows = vec![
        ("url", url.to_owned()),
        (
            "version",
            version
                .unwrap_or("not told (the settings need its http.token)")
                .to_owned(),
        ),
        ("uptime", uptime(readyz.uptime_seconds)),
        ("state", painted(readyz.state, paint)),
    ];
    rows.extend(
        readyz
            .components
            .iter()
            .map(|component| (component.name.as_str(), described(component, paint))),
    );
    let width = rows
        .iter()
        .map(|(name, _)| name.chars().count())
        .max()
        .unwrap_or(0);
    let mut text = String::new();
    for (index, (name, value)) in rows.iter().enumerate() {
        if index == 4 {
            let title = paint.bold("components");
            writeln!(text, "\n{title}").expect("writing to a string cannot fail");
        }
        writeln!(text, "{name:width$}  {value}").expect("writing to a string cannot fail");
    }
    text
}

fn described(component: &Component, paint: Paint) -> String {
    let state = painted(component.state, paint);
    match &component.detail {
        Some(detail) => format!("{state} ({detail})"),
        None => state,
    }
}

fn painted(state: State, paint: Paint) -> String {
    match state {
        State::Ready => paint.green("ready"),
        State::Starting => paint.yellow("starting"),
        State::Draining => paint.yellow("draining"),
        State::Stopped => paint.yellow("stopped"),
        State::Failed => paint.red("failed"),
    }
}

fn uptime(seconds: u64) -> String {
    let (days, hours, minutes) = (seconds / 86_400, seconds / 3_600 % 24, seconds / 60 % 60);
    match (days, hours, minutes) {
        (0, 0, 0) => format!("{seconds}s"),
        (0, 0, _) => format!("{minutes}m {}s", seconds % 60),
        (0, _, _) => format!("{hours}h {minutes}m"),
        _ => format!("{days}d {hours}h"),
    }
}

fn get(url: &str, path: &str, token: Option<&Secret>) -> anyhow::Result<Answer> {
    get_within(url, path, token, PATIENCE, ANSWER_MAX)
}

/// Sends one GET. HTTP/1.0, so that the answer ends with the connection.
pub(crate) fn get_within(
    url: &str,
    path: &str,
    token: Option<&Secret>,
    patience: Duration,
    answer_max: u64,
) -> anyhow::Result<Answer> {
    let authority = url
        .strip_prefix("http://")
        .map(|rest| rest.trim_end_matches('/'))
        .filter(|rest| !rest.is_empty() && !rest.contains('/'))
        .with_context(|| format!("`{url}` does not look like http://ADDRESS:PORT"))?;
    let mut stream = connect(authority, patience).with_context(|| {
        format!("nothing answers at {url}; start the house with `nagaya up` or name it with --url")
    })?;
    let token = token
        .map(|token| format!("authorization: Bearer {}\r\n", token.reveal()))
        .unwrap_or_default();
    write!(stream, "GET {path} HTTP/1.0\r\nhost: {authority}\r\n{token}\r\n")?;
    let mut text = String::new();
    stream
        .take(answer_max)
        .read_to_string(&mut text)
        .with_context(|| format!("{url}{path} did not answer"))?;
    parse(&text).with_context(|| format!("what answers at {url} does not speak HTTP"))
}

fn connect(authority: &str, patience: Duration) -> io::Result<TcpStream> {
    let with_port = if authority
        .rsplit_once(':')
        .is_some_and(|(_, port)| port.parse::<u16>().is_ok())
    {
        authority.to_owned()
    } else {
        format!("{authority}:80")
    };
    let mut last = io::Error::from(io::ErrorKind::NotFound);
    for address in with_port.to_socket_addrs()? {
        match TcpStream::connect_timeout(&address, PATIENCE) {
            Ok(stream) => {
                stream.set_read_timeout(Some(patience))?;
                stream.set_write_timeout(Some(PATIENCE))?;
                return Ok(stream);
            }
            Err(error) => last = error,
        }
    }
    Err(last)
}

fn parse(text: &str) -> anyhow::Result<Answer> {
    let (head, body) = text
        .split_once("\r\n\r\n")
        .context("the answer has no end of its head")?;
    ensure!(
        head.starts_with("HTTP/1."),
        "the answer does not begin with HTTP/1"
    );
    let status = head.split(' ').nth(1).and_then(|code| code.parse().ok());
    Ok(Answer {
        status: status.context("the answer has no status")?,
        body: body.to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_aligned() {
        let component = |name: &str, detail: Option<&str>| Component {
            name: name.into(),
            state: State::Ready,
            detail: detail.map(str::to_owned),
        };
        let components = vec![
            component("ids", Some("number 3, fence 9")),
            component("http", None),
        ];
        let readyz = Readyz {
            state: State::Ready,
            uptime_seconds: 75,
            components,
        };
        let table = as_table("http://127.0.0.1:7400", Some("1.0.0"), &readyz, Paint::plain());
        let expected = "url      http://127.0.0.1:7400\nversion  1.0.0\nuptime   1m 15s\nstate    ready\n\
                        \ncomponents\nids      ready (number 3, fence 9)\nhttp     ready\n";
        assert_eq!(table, expected);
    }

    #[test]
    fn uptimes_are_told_in_their_two_largest_units() {
        let check = |seconds, expected: &str| assert_eq!(uptime(seconds), expected);
        check(5, "5s");
        check(65, "1m 5s");
        check(3_700, "1h 1m");
        check(200_000, "2d 7h");
    }

    #[test]
    fn answers_that_are_not_http_are_refused() {
        assert!(parse("hello").is_err());
        assert!(parse("SSH-2.0\r\n\r\n").is_err());
        assert_eq!(parse("HTTP/1.1 503 X\r\na: b\r\n\r\nbody").unwrap().status, 503);
    }
}
