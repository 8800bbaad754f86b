//! Those who are called: a target that loses every twentieth connection, sometimes after it has taken the event.

use super::*;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

/// One event in this many is answered by closing the connection at its first delivery.
const LOST: u64 = 20;

/// What becomes of a call.
enum Act {
    Answer,
    /// The event is taken and the answer is lost.
    TakeAndCut,
    Cut,
}

#[derive(Default)]
struct Target {
    /// Events that have met a cut: no second one, or their next try would be minutes away.
    cut: Mutex<BTreeSet<String>>,
}

impl Target {
    fn act(&self, event: &str) -> Act {
        let chance = rand::random::<u64>() % LOST;
        if chance > 1 || !self.cut.lock().unwrap().insert(event.to_owned()) {
            return Act::Answer;
        }
        match chance {
            0 => Act::TakeAndCut,
            _ => Act::Cut,
        }
    }

    async fn serve(&self, mut stream: TcpStream, inbox: &Inbox) -> Option<()> {
        let (event, body) = read_call(&mut stream).await?;
        let act = self.act(&event);
        if !matches!(act, Act::Cut) {
            let message: Value = serde_json::from_slice(&body).unwrap();
            let data = &message["data"];
            inbox.take(event, data["job"].as_str().unwrap(), data["result"].clone());
        }
        if matches!(act, Act::Answer) {
            let answer = b"HTTP/1.1 204 No Content\r\nconnection: close\r\n\r\n";
            stream.write_all(answer).await.ok()?;
        }
        Some(())
    }
}

/// Reads a request; returns its event's id and its body.
async fn read_call(stream: &mut TcpStream) -> Option<(String, Vec<u8>)> {
    let mut bytes = Vec::new();
    loop {
        if let Some(end) = bytes.windows(4).position(|four| four == b"\r\n\r\n") {
            let head = String::from_utf8_lossy(&bytes[..end]).into_owned();
            let field = |name: &str| {
                let lines = head.lines().filter_map(|line| line.split_once(": "));
                lines
                    .into_iter()
                    .find(|(one, _)| one.eq_ignore_ascii_case(name))
                    .map(|(_, value)| value.to_owned())
            };
            let length: usize = field("content-length")?.parse().ok()?;
            if bytes.len() >= end + 4 + length {
                return Some((field("webhook-id")?, bytes.split_off(end + 4)));
            }
        }
        if stream.read_buf(&mut bytes).await.ok()? == 0 {
            return None;
        }
    }
}

fn check(start: impl Fn(&[&str]) -> Site) {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    listener.set_nonblocking(true).unwrap();
    let url = format!("http://{}/done", listener.local_addr().unwrap());
    let site = start(&[
        "--set",
        "jobs.webhooks.allow=127.0.0.1",
        "--set",
        "jobs.webhooks.timeout=1s",
    ]);
    storm(&site, Some(url), &Inbox::default(), async |_, inbox: &Inbox| {
        let (listener, target) = (TcpListener::from_std(listener).unwrap(), Target::default());
        let mut calls = futures_util::stream::FuturesUnordered::new();
        while !inbox.is_full() {
            tokio::select! {
                accepted = listener.accept() => calls.push(target.serve(accepted.unwrap().0, inbox)),
                Some(_) = futures_util::StreamExt::next(&mut calls) => (),
            }
        }
    });
}

#[test]
fn webhooks_survive_cuts_and_kills_on_sqlite() {
    check(Site::on_sqlite);
}

#[test]
fn webhooks_survive_cuts_and_kills_on_postgresql() {
    check(Site::on_postgres);
}
