//! What a command writes: its result and its log.

use std::collections::VecDeque;
use std::io;

use nagaya_client::{Attempt, Failure, RawValue};
use tokio::io::{AsyncBufReadExt, AsyncRead, AsyncReadExt, BufReader};
use tokio::sync::mpsc;

/// Longest log line; the rest of a longer one becomes the next.
const LINE_BYTES_MAX: u64 = 4096;
/// Most log lines of one attempt; later ones are counted only.
const LINES_MAX: usize = 10_000;
/// Most lines in one report.
const REPORT_LINES_MAX: usize = 200;
/// Number of last log lines that become the error of a failed attempt.
const TAIL_LINES: usize = 10;

/// Reads standard output, up to one byte more than a result may have; the rest is thrown away.
pub(super) async fn read_result(mut stdout: impl AsyncRead + Unpin, bytes_max: usize) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    let limit = bytes_max as u64 + 1;
    (&mut stdout).take(limit).read_to_end(&mut bytes).await?;
    tokio::io::copy(&mut stdout, &mut tokio::io::sink()).await?;
    Ok(bytes)
}

/// Output as a result: JSON as it is, other text as a JSON string, nothing when there is none.
pub(super) fn result_of(bytes: &[u8], bytes_max: usize) -> Result<Option<Box<RawValue>>, Failure> {
    if bytes.len() > bytes_max {
        let error = format!("the command wrote more than the {bytes_max} bytes that a result may have");
        return Err(Failure::permanent(error));
    }
    let text = String::from_utf8_lossy(bytes);
    let text = text.trim_end_matches('\n');
    if text.trim().is_empty() {
        return Ok(None);
    }
    if let Ok(raw) = RawValue::from_string(text.trim().to_owned()) {
        return Ok(Some(raw));
    }
    let quoted = serde_json::to_string(text).and_then(RawValue::from_string);
    quoted.map(Some).map_err(Failure::from)
}

/// Sends standard error to the job's log, line by line, and returns the last lines.
pub(super) async fn follow_log(attempt: &Attempt, stderr: impl AsyncRead + Unpin) -> String {
    let (lines, reports) = mpsc::channel(REPORT_LINES_MAX);
    let (tail, ()) = tokio::join!(read_lines(stderr, lines), report_lines(attempt, reports));
    Vec::from(tail).join("\n")
}

async fn read_lines(stderr: impl AsyncRead + Unpin, lines: mpsc::Sender<String>) -> VecDeque<String> {
    let mut stderr = BufReader::new(stderr);
    let mut tail = VecDeque::with_capacity(TAIL_LINES);
    let (mut line, mut count) = (Vec::new(), 0);
    loop {
        line.clear();
        match (&mut stderr)
            .take(LINE_BYTES_MAX)
            .read_until(b'\n', &mut line)
            .await
        {
            Ok(0) | Err(_) => break,
            Ok(_) => (),
        }
        let text = String::from_utf8_lossy(&line)
            .trim_end()
            .replace('\0', "\u{fffd}");
        if tail.len() == TAIL_LINES {
            tail.pop_front();
        }
        tail.push_back(text.clone());
        count += 1;
        if count <= LINES_MAX {
            // The receiver lives as long as we do.
            lines.send(text).await.ok();
        }
    }
    if count > LINES_MAX {
        lines
            .send(format!("({} more lines were not kept)", count - LINES_MAX))
            .await
            .ok();
    }
    tail
}

async fn report_lines(attempt: &Attempt, mut reports: mpsc::Receiver<String>) {
    let mut lines = Vec::new();
    while reports.recv_many(&mut lines, REPORT_LINES_MAX).await > 0 {
        if let Err(error) = attempt.log(&lines).await {
            tracing::debug!(job = attempt.id(), %error, lines = lines.len(), "log lines not kept");
        }
        lines.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn output_becomes_json() {
        let text = |bytes: &[u8]| result_of(bytes, 100).unwrap().map(|raw| raw.get().to_owned());
        assert_eq!(text(b"{\"a\": [1]}\n").as_deref(), Some("{\"a\": [1]}"));
        assert_eq!(text(b"two\nlines\n").as_deref(), Some("\"two\\nlines\""));
        assert_eq!(text(b"12").as_deref(), Some("12"));
        assert_eq!(text(b"\n"), None);
        assert!(result_of(&[b'x'; 101], 100).unwrap_err().permanent);
    }

    #[tokio::test]
    async fn no_more_of_the_output_is_kept_than_a_result_may_have() {
        let bytes = read_result(&[b'x'; 5000][..], 100).await.unwrap();
        assert_eq!(bytes.len(), 101);
    }

    #[tokio::test]
    async fn the_tail_of_the_log_is_kept_and_long_lines_are_cut() {
        let (lines, mut read) = mpsc::channel(1000);
        let text = (0..20).map(|n| format!("line {n}\n")).collect::<String>() + &"x".repeat(5000);
        let tail = read_lines(text.as_bytes(), lines).await;
        assert_eq!(tail.len(), TAIL_LINES);
        assert_eq!(tail[0], "line 12");
        assert_eq!((tail[8].len(), tail[9].len()), (4096, 904));
        let mut count = 0;
        while read.recv().await.is_some() {
            count += 1;
        }
        assert_eq!(count, 22);
    }
}
