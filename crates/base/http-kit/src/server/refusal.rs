//! What clients are told that get no place.

use std::time::Duration;

use http::StatusCode;
use tokio::net::TcpStream;
use tracing::debug;

use crate::problem::Problem;

/// Tells a client why it is not served. The few bytes fit the socket's empty buffer; if they do not, the client
/// only sees the connection close. Its request is read first, if it comes soon: what is not read when a connection is
/// closed makes the client lose the answer.
pub(super) async fn refuse(stream: TcpStream, problem: Problem, head_pause: Duration) {
    let request = tokio::time::timeout(head_pause, stream.readable()).await;
    if let (Ok(Ok(())), Err(error)) = (request, stream.try_read(&mut [0; 4096])) {
        debug!(%error, "a refused client could not be heard");
    }
    let body = problem.body();
    let answer = format!(
        "HTTP/1.1 503 Service Unavailable\r\ncontent-type: application/problem+json\r\n\
         content-length: {}\r\nconnection: close\r\nretry-after: 1\r\n\r\n{body}",
        body.len()
    );
    if let Err(error) = stream.try_write(answer.as_bytes()) {
        debug!(%error, "a refused client could not be told");
    }
}

pub(super) fn all_taken(section: &str) -> Problem {
    let detail = format!(
        "all connections that `{section}.connections_max` or `{section}.connections_per_address` allows are in \
         use; try again later"
    );
    Problem::new(StatusCode::SERVICE_UNAVAILABLE, detail)
        .kind("connections-taken")
        .retry_after(1)
}

pub(super) fn no_files() -> Problem {
    let detail = "the process has no file descriptor left for this connection; try again later";
    Problem::new(StatusCode::SERVICE_UNAVAILABLE, detail)
        .kind("no-files")
        .retry_after(1)
}
