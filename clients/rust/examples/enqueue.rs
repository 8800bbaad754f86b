//! Registers a job and waits for its result.
//!
//! Usage: enqueue [URL] [TEXT]; the worker example handles it.

#![allow(clippy::print_stdout, reason = "the result is what this program is for")]

use std::time::Duration;

use nagaya_client::{Client, NewJob};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut args = std::env::args().skip(1);
    let url = args.next().unwrap_or_else(|| "http://127.0.0.1:7400".to_owned());
    let text = args.next().unwrap_or_else(|| "hello".to_owned());

    let client = Client::new(&url)?;
    let job = NewJob::new("shout", &serde_json::json!({ "text": text }))?
        .timeout(Duration::from_secs(30))
        .max_retries(2);
    let enqueued = client.enqueue(job).await?;
    let job = client.wait(&enqueued.id, Duration::from_secs(60)).await?;
    match job.result::<String>()? {
        Some(result) => println!("{result}"),
        None => println!("job {} is {}", job.id, job.state),
    }
    Ok(())
}
