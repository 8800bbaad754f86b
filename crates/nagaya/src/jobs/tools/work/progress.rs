//! Progress, as commands write it on descriptor 3.
//!
//! A line is a number from 0 to 1, a percentage such as `42%`, a JSON object with `progress` and `message`,
//! or any other text, which is a message. The newest line counts: what comes faster than it can be reported
//! is passed over.

use std::time::Duration;

use nagaya_client::Attempt;
use serde::Deserialize;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, BufReader};
use tokio::net::unix::pipe;
use tokio::sync::watch;

/// Pause between two reports.
const PAUSE: Duration = Duration::from_millis(200);
/// Longest line; the rest of a longer one is read as the next.
const LINE_BYTES_MAX: u64 = 4096;

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
struct Progress {
    progress: Option<f64>,
    message: Option<String>,
}

/// Reports what the child writes until it closes the pipe. The last line is reported too.
pub(super) async fn follow(attempt: &Attempt, pipe: pipe::Receiver) {
    let (newest, mut changes) = watch::channel(None);
    let read = async move {
        let mut pipe = BufReader::new(pipe);
        let mut line = Vec::new();
        loop {
            line.clear();
            match (&mut pipe)
                .take(LINE_BYTES_MAX)
                .read_until(b'\n', &mut line)
                .await
            {
                Ok(0) | Err(_) => return,
                Ok(_) => {
                    if let Some(progress) = parse(&String::from_utf8_lossy(&line)) {
                        newest.send_replace(Some(progress));
                    }
                }
            }
        }
    };
    let report = async {
        while changes.changed().await.is_ok() {
            let Some(progress) = changes.borrow_and_update().clone() else {
                continue;
            };
            let message = progress.message.as_deref();
            let sent = match progress.progress {
                Some(done) => attempt.progress(done, message).await,
                None => attempt.message(message.unwrap_or_default()).await,
            };
            if let Err(error) = sent {
                tracing::debug!(job = attempt.id(), %error, "progress not reported");
            }
            tokio::time::sleep(PAUSE).await;
        }
    };
    tokio::join!(read, report);
}

fn parse(line: &str) -> Option<Progress> {
    let line = line.trim();
    let (number, parts) = match line.strip_suffix('%') {
        Some(number) => (number, 100.0),
        None => (line, 1.0),
    };
    if let Ok(done) = number.trim().parse::<f64>()
        && done.is_finite()
    {
        return Some(Progress {
            progress: Some((done / parts).clamp(0.0, 1.0)),
            message: None,
        });
    }
    if line.starts_with('{')
        && let Ok(progress) = serde_json::from_str::<Progress>(line)
    {
        return Some(progress);
    }
    (!line.is_empty()).then(|| Progress {
        progress: None,
        message: Some(line.to_owned()),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_numbers_percentages_objects_or_words() {
        let check = |line: &str, progress: Option<f64>, message: Option<&str>| {
            let expected = Progress {
                progress,
                message: message.map(str::to_owned),
            };
            assert_eq!(parse(line), Some(expected), "{line}");
        };
        check("0.25\n", Some(0.25), None);
        check("42%", Some(0.42), None);
        check("7", Some(1.0), None);
        check("copying", None, Some("copying"));
        check(r#"{"progress":0.5,"message":"half"}"#, Some(0.5), Some("half"));
        check(r#"{"message":"x"}"#, None, Some("x"));
        check("NaN", None, Some("NaN"));
        assert_eq!(parse(" \n"), None);
    }
}
