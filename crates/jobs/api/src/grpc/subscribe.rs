//! `Subscribe`: a durable subscription with flow control.
//!
//! Events are sent while fewer than `outstanding_max` are unacknowledged. The server keeps the cursor, which
//! advances to just before the oldest unacknowledged event, so after a disconnect the rest is sent again. An
//! event that is not acknowledged within the deadline is sent again on the same stream.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use nagaya_jobs::event::{Event, Subscription};
use tokio::time::Instant;
use tonic::{Request, Response, Status, Streaming};

use super::session::{Outbox, start};
use super::{Answers, convert};
use crate::api::Api;
use crate::auth::{Permission, Principal};
use crate::feed::Reader;
use crate::handlers::Seen;
use crate::problem::Problem;
use crate::proto::subscribe_request::Message as Asked;
use crate::proto::subscribe_response::Message;
use crate::proto::{Ack, Gap, SubscribeHello, SubscribeRequest, SubscribeResponse};

const OUTSTANDING_DEFAULT: usize = 1_000;
const OUTSTANDING_MAX: usize = 10_000;
const DEADLINE_DEFAULT: Duration = Duration::from_secs(30);
const DEADLINE_MIN: Duration = Duration::from_millis(100);
/// How often overdue events are checked and the cursor is stored.
const TICK: Duration = Duration::from_millis(100);

pub(super) async fn open(
    api: Api,
    request: Request<Streaming<SubscribeRequest>>,
) -> Result<Response<Answers<SubscribeResponse>>, Status> {
    let (metadata, _, incoming) = request.into_parts();
    let principal = api
        .auth
        .principal(&metadata.into_headers(), Permission::Read)
        .await?;
    let session_api = api.clone();
    // The server keeps the cursor for the client, which is a change.
    principal.check(Permission::Enqueue)?;
    Ok(start(&api, |outbox| async move {
        let ended = tokio::select! {
            ended = session(&session_api, &principal, incoming, &outbox) => ended,
            problem = session_api.auth.until_invalid(&principal) => Err(problem.into()),
        };
        if let Err(status) = ended {
            outbox.refuse(status).await;
        }
    }))
}

async fn session(
    api: &Api,
    principal: &Principal,
    mut incoming: Streaming<SubscribeRequest>,
    outbox: &Outbox<SubscribeResponse>,
) -> Result<(), Status> {
    let hello = match incoming.message().await?.and_then(|message| message.message) {
        Some(Asked::Hello(hello)) => hello,
        Some(Asked::Ack(_)) => return Err(Status::invalid_argument("the first message must be a hello")),
        None => return Ok(()),
    };
    let mut flow = Flow::new(&hello);
    let seen = api.handlers.seen_by(principal);
    let subscription = begin(principal, seen, hello).await?;
    let filter = subscription.filter.clone();
    let mut reader = seen.reader(filter, Some(subscription.cursor)).await?;
    let mut kept = Kept {
        seen,
        cursor: subscription.cursor,
        subscription,
    };
    if outbox.send(response(Message::Cursor(kept.cursor))).await.is_err() {
        return Ok(());
    }
    let mut ticks = tokio::time::interval(TICK);
    loop {
        tokio::select! {
            message = incoming.message() => match message.unwrap_or_default() {
                Some(SubscribeRequest { message: Some(Asked::Ack(ack)) }) => flow.ack(&ack),
                Some(_) => return Err(Status::invalid_argument("after the hello come acks")),
                // The client has finished or disconnected.
                None => break,
            },
            batch = reader.next(), if flow.has_room() => {
                let batch = batch.map_err(Problem::from)?;
                if let Some((after, up_to)) = batch.gap
                    && outbox.send(response(Message::Gap(Gap { after, up_to }))).await.is_err()
                {
                    return Ok(());
                }
                flow.waiting.extend(batch.events);
            }
            _ = ticks.tick() => {
                flow.overdue();
                kept.keep(flow.done_up_to(&reader)).await?;
            }
            () = api.closing.cancelled() => {
                kept.keep(flow.done_up_to(&reader)).await?;
                return Err(Status::unavailable("the server stops"));
            }
            () = outbox.closed() => break,
        }
        while let Some(event) = flow.next() {
            if outbox
                .send(response(Message::Event(convert::event(&event))))
                .await
                .is_err()
            {
                break;
            }
        }
    }
    Ok(kept.keep(flow.done_up_to(&reader)).await?)
}

async fn begin(
    principal: &Principal,
    seen: Seen<'_>,
    hello: SubscribeHello,
) -> Result<Subscription, Problem> {
    let filter = convert::filter(principal, seen, hello.filter)?;
    seen.subscribe(hello.name, filter, hello.after).await
}

/// The stored cursor.
struct Kept<'a> {
    seen: Seen<'a>,
    subscription: Subscription,
    cursor: u64,
}

impl Kept<'_> {
    async fn keep(&mut self, cursor: u64) -> Result<(), Problem> {
        if cursor > self.cursor {
            self.cursor = self.seen.keep(&self.subscription, cursor).await?;
        }
        Ok(())
    }
}

/// Events between the log and the client's acknowledgement.
struct Flow {
    outstanding_max: usize,
    deadline: Duration,
    /// Read, not sent.
    waiting: VecDeque<Arc<Event>>,
    /// Sent and not acknowledged, with the time at which they are sent again.
    sent: BTreeMap<u64, (Arc<Event>, Instant)>,
}

impl Flow {
    fn new(hello: &SubscribeHello) -> Flow {
        let outstanding_max = match hello.outstanding_max as usize {
            0 => OUTSTANDING_DEFAULT,
            asked => asked.min(OUTSTANDING_MAX),
        };
        let deadline = match hello.ack_deadline_ms {
            0 => DEADLINE_DEFAULT,
            ms => Duration::from_millis(ms).max(DEADLINE_MIN),
        };
        Flow {
            outstanding_max,
            deadline,
            waiting: VecDeque::new(),
            sent: BTreeMap::new(),
        }
    }

    /// Returns whether more events may be read. A batch may exceed the limit while waiting, never in flight.
    fn has_room(&self) -> bool {
        self.waiting.is_empty() && self.sent.len() < self.outstanding_max
    }

    /// Returns the next event to send.
    fn next(&mut self) -> Option<Arc<Event>> {
        let is_again = |event: &Arc<Event>| self.sent.contains_key(&event.seq);
        let front = self.waiting.front()?;
        if !is_again(front) && self.sent.len() >= self.outstanding_max {
            return None;
        }
        let event = self.waiting.pop_front()?;
        let due = Instant::now() + self.deadline;
        self.sent.insert(event.seq, (Arc::clone(&event), due));
        Some(event)
    }

    fn ack(&mut self, ack: &Ack) {
        for seq in &ack.seqs {
            self.sent.remove(seq);
        }
        if ack.up_to > 0 {
            self.sent = self.sent.split_off(&(ack.up_to + 1));
        }
    }

    /// Queues events whose acknowledgement is overdue to be sent again.
    fn overdue(&mut self) {
        let now = Instant::now();
        let again: Vec<_> = self
            .sent
            .values_mut()
            .filter(|(_, due)| *due <= now)
            .map(|(event, due)| {
                // Not queued twice before it is sent.
                *due = now + self.deadline;
                Arc::clone(event)
            })
            .collect();
        for event in again.into_iter().rev() {
            self.waiting.push_front(event);
        }
    }

    /// Returns the position up to which nothing has to be sent any more.
    fn done_up_to(&self, reader: &Reader) -> u64 {
        let oldest = self.sent.keys().next().copied();
        let waiting = self.waiting.iter().map(|event| event.seq).min();
        let open = oldest.into_iter().chain(waiting).min();
        open.map_or(reader.position(), |seq| seq - 1)
    }
}

fn response(message: Message) -> SubscribeResponse {
    SubscribeResponse {
        message: Some(message),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::feed::tests::event;

    fn flow(outstanding_max: u32) -> Flow {
        let mut flow = Flow::new(&SubscribeHello {
            outstanding_max,
            ack_deadline_ms: 1_000,
            ..SubscribeHello::default()
        });
        flow.waiting.extend((1..=5).map(|seq| Arc::new(event(seq, 1))));
        flow
    }

    fn drain(flow: &mut Flow) -> Vec<u64> {
        std::iter::from_fn(|| flow.next())
            .map(|event| event.seq)
            .collect()
    }

    #[tokio::test(start_paused = true)]
    async fn no_more_than_the_window_is_in_flight() {
        let mut flow = flow(3);
        assert_eq!(drain(&mut flow), [1, 2, 3]);
        flow.ack(&Ack {
            seqs: vec![2],
            up_to: 0,
        });
        assert_eq!(drain(&mut flow), [4]);
        flow.ack(&Ack {
            seqs: vec![],
            up_to: 4,
        });
        assert_eq!(drain(&mut flow), [5]);
    }

    #[tokio::test(start_paused = true)]
    async fn what_is_not_acknowledged_comes_again_in_order() {
        let mut flow = flow(10);
        drain(&mut flow);
        flow.ack(&Ack {
            seqs: vec![1, 3],
            up_to: 0,
        });
        tokio::time::advance(Duration::from_secs(1)).await;
        flow.overdue();
        assert_eq!(drain(&mut flow), [2, 4, 5]);
        flow.overdue();
        assert_eq!(drain(&mut flow), [0_u64; 0]);
        // Acknowledging twice is not an error.
        flow.ack(&Ack {
            seqs: vec![1, 2, 4, 5],
            up_to: 0,
        });
        assert!(flow.waiting.is_empty() && flow.sent.is_empty());
    }
}
