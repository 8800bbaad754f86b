//! Works on the queue `shout` until Ctrl-C and returns each text in capitals.
//!
//! Usage: worker [URL]

#![allow(clippy::print_stdout, reason = "the tally is what this program ends with")]

use nagaya_client::{Attempt, CancellationToken, Client, Failure, Worker};
use serde::Deserialize;

#[derive(Deserialize)]
struct Payload {
    text: String,
}

async fn shout(attempt: Attempt) -> Result<String, Failure> {
    let payload: Payload = attempt.payload()?;
    if payload.text.is_empty() {
        return Err(Failure::permanent("there is nothing to shout"));
    }
    attempt.progress(0.5, Some("drawing breath")).await?;
    Ok(payload.text.to_uppercase())
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let url = std::env::args()
        .nth(1)
        .unwrap_or_else(|| "http://127.0.0.1:7400".to_owned());
    let shutdown = CancellationToken::new();
    let interrupted = shutdown.clone();
    tokio::spawn(async move {
        // If no handler can be installed, Ctrl-C ends the program at once.
        tokio::signal::ctrl_c().await.ok();
        interrupted.cancel();
    });
    let worker = Worker::new(Client::new(&url)?, "shout").concurrency(8);
    let tally = worker.run(shout, shutdown).await?;
    println!(
        "{} done, {} failed, {} lost",
        tally.succeeded, tally.failed, tally.lost
    );
    Ok(())
}
