//! The external list of workers. A list that cannot be read completely is an error; objects in it that cannot be used
//! are left out and told of.

use std::collections::BTreeSet;
use std::io;
use std::path::PathBuf;
use std::process::Stdio;
use std::str::FromStr;
use std::time::Duration;

use http::header::AUTHORIZATION;
use http::{HeaderName, Method};
use serde_json::Value;
use serde_json::value::RawValue;
use tokio::process::Command;

use crate::agent::split_words;
use crate::http_client::{Caller, Url};
use crate::name::{BadName, WorkerId, check_label};
use crate::plan::Constraints;
use crate::store::Install;

/// Pages per list at most; more are taken for a loop of links.
const PAGES_MAX: usize = 10_000;
/// Objects left out that are told of.
const LEFT_OUT_MAX: usize = 1000;
/// How long a page, or a command, may take.
const READ_LIMIT: Duration = Duration::from_secs(60);

/// Where the list comes from.
#[derive(Clone, Debug)]
pub enum Source {
    /// A file, read again every time.
    File(PathBuf),
    /// A command whose standard output is the list; no shell is involved.
    Exec(Vec<String>),
    /// `http://` or `https://`. The next page is in `Link: <URL>; rel="next"`, or in `next` of an object whose
    /// `items` is the list.
    Http(HttpSource),
}

/// A list behind a URL.
#[derive(Clone, Debug)]
pub struct HttpSource {
    url: Url,
    /// Sent as `Authorization` if present, only to the server of the first page.
    pub authorization: Option<String>,
    /// Certificates to trust, PEM; the system's when absent.
    pub ca: Option<PathBuf>,
}

/// Why the list could not be read.
#[derive(Debug, thiserror::Error)]
pub enum SourceError {
    #[error("a source is one of https://, http://, file:PATH and exec:COMMAND")]
    Unknown,
    #[error("list not read")]
    Read(#[source] io::Error),
    #[error("list is not a JSON array of objects: {0}")]
    NotAList(#[source] serde_json::Error),
}

/// A list as it was read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Listing {
    pub installs: Vec<Install>,
    /// Why objects were left out, each with its place in the list.
    pub left_out: Vec<String>,
    /// Workers whose objects were left out: they stay as they are.
    pub kept: BTreeSet<WorkerId>,
    /// An object does not say which worker it is, so that any of those not listed may be meant.
    pub has_nameless: bool,
}

impl Listing {
    fn leave_out(&mut self, at: usize, reason: &str, worker: Option<WorkerId>) {
        if self.left_out.len() < LEFT_OUT_MAX {
            self.left_out.push(format!("object {at} of the list {reason}"));
        }
        self.has_nameless |= worker.is_none();
        self.kept.extend(worker);
    }
}

impl FromStr for Source {
    type Err = SourceError;

    fn from_str(text: &str) -> Result<Source, SourceError> {
        let unknown = || SourceError::Unknown;
        if let Some(path) = text.strip_prefix("file:") {
            return Ok(Source::File(path.into()));
        }
        if let Some(line) = text.strip_prefix("exec:") {
            return split_words(line).map(Source::Exec).ok_or_else(unknown);
        }
        if text.contains("://") {
            let url = Url::parse(text).map_err(SourceError::Read)?;
            return Ok(Source::Http(HttpSource {
                url,
                authorization: None,
                ca: None,
            }));
        }
        Err(unknown())
    }
}

impl Source {
    /// Reads the complete list, or fails.
    pub async fn read(&self) -> Result<Listing, SourceError> {
        let mut listing = Listing::default();
        match self {
            Source::File(path) => {
                let bytes = tokio::fs::read(path).await.map_err(SourceError::Read)?;
                parse_page(&bytes, &mut listing)?;
            }
            Source::Exec(words) => parse_page(&output_of(words).await?, &mut listing).map(drop)?,
            Source::Http(source) => source.read_pages(&mut listing).await?,
        }
        let mut seen = BTreeSet::new();
        let all = std::mem::take(&mut listing.installs);
        for (at, install) in all.into_iter().enumerate() {
            if seen.insert(install.worker.clone()) {
                listing.installs.push(install);
            } else {
                let reason = format!("repeats the id {}", install.worker);
                listing.leave_out(at, &reason, Some(install.worker));
            }
        }
        Ok(listing)
    }
}

impl HttpSource {
    async fn read_pages(&self, listing: &mut Listing) -> Result<(), SourceError> {
        let mut url = self.url.clone();
        let caller = Caller::new(&url, self.ca.as_deref()).map_err(SourceError::Read)?;
        for _ in 0..PAGES_MAX {
            let authorization = self
                .authorization
                .iter()
                .filter(|_| url.is_same_server(&self.url));
            let headers: Vec<(HeaderName, &str)> = authorization
                .map(|value| (AUTHORIZATION, value.as_str()))
                .collect();
            let answer =
                tokio::time::timeout(READ_LIMIT, caller.request(Method::GET, &url, &headers, b"")).await;
            let answer = answer
                .map_err(|_| SourceError::Read(io::ErrorKind::TimedOut.into()))?
                .map_err(SourceError::Read)?;
            if answer.status() != 200 {
                let reason = format!("the list was answered with status {}", answer.status());
                return Err(SourceError::Read(io::Error::other(reason)));
            }
            let in_body = parse_page(answer.body(), listing)?;
            let in_head = answer.header("link").and_then(next_link).map(str::to_owned);
            let Some(next) = in_body.or(in_head) else {
                return Ok(());
            };
            url = url.resolve(&next).map_err(SourceError::Read)?;
        }
        Err(SourceError::Read(io::Error::other("the list has too many pages")))
    }
}

/// Returns the URL of the next page in a `Link` header.
fn next_link(header: &str) -> Option<&str> {
    header.split(',').find_map(|link| {
        let (url, parameters) = link.trim().split_once('>')?;
        let is_next = parameters
            .split(';')
            .any(|parameter| matches!(parameter.trim(), "rel=\"next\"" | "rel=next"));
        is_next.then_some(url.strip_prefix('<')?)
    })
}

async fn output_of(words: &[String]) -> Result<Vec<u8>, SourceError> {
    let running = Command::new(&words[0])
        .args(&words[1..])
        .stdin(Stdio::null())
        .stderr(Stdio::inherit())
        .kill_on_drop(true)
        .output();
    let output = tokio::time::timeout(READ_LIMIT, running).await;
    let output = output
        .map_err(|_| SourceError::Read(io::ErrorKind::TimedOut.into()))?
        .map_err(SourceError::Read)?;
    if !output.status.success() {
        let reason = format!("{:?} ended with {}", words[0], output.status);
        return Err(SourceError::Read(io::Error::other(reason)));
    }
    Ok(output.stdout)
}

/// Adds a page's objects. Returns the URL of the next page if the page names one.
fn parse_page(bytes: &[u8], listing: &mut Listing) -> Result<Option<String>, SourceError> {
    let begins_with = bytes.iter().find(|byte| !byte.is_ascii_whitespace());
    let (items, next): (Vec<&RawValue>, Option<String>) = if begins_with == Some(&b'{') {
        let page: std::collections::BTreeMap<String, &RawValue> =
            serde_json::from_slice(bytes).map_err(SourceError::NotAList)?;
        let items = page.get("items").map_or("null", |items| items.get());
        let next = page.get("next").map_or("null", |next| next.get());
        (
            serde_json::from_str(items).map_err(SourceError::NotAList)?,
            serde_json::from_str(next).map_err(SourceError::NotAList)?,
        )
    } else {
        (
            serde_json::from_slice(bytes).map_err(SourceError::NotAList)?,
            None,
        )
    };
    for item in items {
        let at = listing.installs.len() + listing.left_out.len();
        match parse_object(item) {
            Ok(install) => listing.installs.push(install),
            Err((reason, worker)) => listing.leave_out(at, &reason, worker),
        }
    }
    Ok(next)
}

/// Fails with the reason and, if it can be told, the worker that is meant.
fn parse_object(raw: &RawValue) -> Result<Install, (String, Option<WorkerId>)> {
    let value: Value = serde_json::from_str(raw.get()).map_err(|error| (error.to_string(), None))?;
    let object = value.as_object().ok_or(("is not an object".to_owned(), None))?;
    let worker = match object.get("id") {
        Some(Value::String(id)) => WorkerId::new(id),
        Some(Value::Number(id)) => WorkerId::new(&id.to_string()),
        _ => return Err(("has no id".into(), None)),
    };
    let worker = worker.map_err(|error| (error.to_string(), None))?;
    let constraints = match object.get("placement") {
        None => Constraints::default(),
        Some(placement) => parse_constraints(placement).map_err(|reason| (reason, Some(worker.clone())))?,
    };
    Ok(Install {
        worker,
        config: raw.get().as_bytes().to_vec(),
        constraints,
    })
}

fn parse_constraints(placement: &Value) -> Result<Constraints, String> {
    let checked = |label: &Value| {
        let label = label.as_str().ok_or("has a placement that is not text")?;
        check_label(label).map_err(|error: BadName| error.to_string())?;
        Ok::<String, String>(label.to_owned())
    };
    let labels = placement.get("labels").and_then(Value::as_array);
    Ok(Constraints {
        labels: labels
            .into_iter()
            .flatten()
            .map(checked)
            .collect::<Result<_, _>>()?,
        group: placement.get("group").map(checked).transpose()?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<(Vec<Install>, Option<String>), SourceError> {
        let mut listing = Listing::default();
        let next = parse_page(text.as_bytes(), &mut listing)?;
        Ok((listing.installs, next))
    }

    #[test]
    fn configs_are_kept_byte_for_byte() {
        let (list, _) = parse(r#" [ {"id":"a", "x" : [], "n":1234567890123456789012}, {"id":7} ] "#).unwrap();
        assert_eq!(
            list[0].config,
            br#"{"id":"a", "x" : [], "n":1234567890123456789012}"#
        );
        assert_eq!(list[1].worker.as_str(), "7");
    }

    #[test]
    fn pages_and_placements_are_read() {
        let page = r#"{"items":[{"id":"a","placement":{"labels":["gpu"],"group":"g"}}],"next":"/2"}"#;
        let (list, next) = parse(page).unwrap();
        assert_eq!(next.as_deref(), Some("/2"));
        assert!(list[0].constraints.labels.contains("gpu"));
        assert_eq!(
            next_link(r#"<http://h/1>; rel="prev", </2>; rel="next""#),
            Some("/2")
        );
    }

    #[test]
    fn objects_that_cannot_be_used_are_left_out_and_told_of() {
        for (bad, is_nameless) in [
            ("1", true),
            ("{}", true),
            (r#"{"id":""}"#, true),
            (r#"{"id":"b","placement":{"labels":[1]}}"#, false),
        ] {
            let mut listing = Listing::default();
            let text = format!(r#"[{{"id":"a"}},{bad},{{"id":"c"}}]"#);
            parse_page(text.as_bytes(), &mut listing).unwrap();
            let ids: Vec<&str> = listing.installs.iter().map(|one| one.worker.as_str()).collect();
            assert_eq!(
                (ids, listing.has_nameless),
                (vec!["a", "c"], is_nameless),
                "{bad}"
            );
            assert!(
                listing.left_out[0].starts_with("object 1 of the list"),
                "{listing:?}"
            );
            assert_eq!(listing.kept.len(), usize::from(!is_nameless));
        }
    }

    #[test]
    fn anything_else_is_no_list() {
        for bad in ["", "null", "{}", r#"[{"id":"a"}"#] {
            assert!(parse(bad).is_err(), "{bad}");
        }
        for bad in ["list.json", "exec:", "ftp://x"] {
            assert!(bad.parse::<Source>().is_err(), "{bad}");
        }
    }
}
