//! Webhooks, and the state of their deliveries.

use std::time::Duration;

use crate::error::Error;
use crate::event::EventKind;
use crate::id::JobId;
use crate::limits::{HEADER_BYTES_MAX, HEADERS_MAX};
use crate::name::{QueueName, TenantId};
use crate::url;

/// Where events of a job are sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Webhook {
    pub url: String,
    pub headers: Vec<(String, String)>,
    /// Which events; the three endings when empty. Progress and starts are not delivered.
    pub events: Vec<EventKind>,
    /// CloudEvents instead of the Standard Webhooks body.
    pub cloud_events: bool,
}

impl Webhook {
    pub fn to(url: impl Into<String>) -> Webhook {
        Webhook {
            url: url.into(),
            headers: Vec::new(),
            events: Vec::new(),
            cloud_events: false,
        }
    }

    /// Returns whether an event of this kind is sent.
    pub fn wants(&self, kind: EventKind) -> bool {
        if self.events.is_empty() {
            kind.is_ending()
        } else {
            self.events.contains(&kind) && Webhook::can_send(kind)
        }
    }

    fn can_send(kind: EventKind) -> bool {
        !matches!(
            kind,
            EventKind::Enqueued | EventKind::Started | EventKind::Progress
        )
    }

    pub fn check(&self) -> Result<(), Error> {
        let wrong = |why: &str| Err(Error::invalid("webhook", why));
        url::check(&self.url).or_else(wrong)?;
        if self.headers.len() > HEADERS_MAX {
            return wrong("may have 32 headers at most");
        }
        let fits = |(name, value): &(String, String)| {
            !name.is_empty()
                && name.len() + value.len() <= HEADER_BYTES_MAX
                && name
                    .bytes()
                    .all(|byte| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_')
                && value.bytes().all(|byte| (0x20..0x7f).contains(&byte))
        };
        if !self.headers.iter().all(fits) {
            return wrong("has a header that cannot be sent");
        }
        if !self.events.iter().all(|kind| Webhook::can_send(*kind)) {
            return wrong("can be told of endings, retries and lost leases only");
        }
        Ok(())
    }
}

/// The state of a delivery.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum DeliveryState {
    /// Not yet delivered; there will be another try.
    Pending,
    Delivered,
    /// No tries left, or the target refused further ones. The job shows "result not delivered".
    GaveUp,
}

impl DeliveryState {
    pub const ALL: [DeliveryState; 3] = [
        DeliveryState::Pending,
        DeliveryState::Delivered,
        DeliveryState::GaveUp,
    ];

    pub fn name(self) -> &'static str {
        match self {
            DeliveryState::Pending => "pending",
            DeliveryState::Delivered => "delivered",
            DeliveryState::GaveUp => "gave_up",
        }
    }

    pub fn named(name: &str) -> Option<DeliveryState> {
        DeliveryState::ALL.into_iter().find(|state| state.name() == name)
    }
}

/// The number of a delivery, in the order of the events.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DeliveryId(pub i64);

/// One event on its way to one target. Made in the transaction of the event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Delivery {
    pub id: DeliveryId,
    pub job: JobId,
    pub queue: QueueName,
    pub tenant: TenantId,
    /// The event's position in the log.
    pub seq: u64,
    pub kind: EventKind,
    pub attempt: u32,
    pub webhook: Webhook,
    /// Where it goes; see [`crate::url::target`]. Empty for one that an older version made.
    pub target: String,
    pub state: DeliveryState,
    /// Tries so far; a replay continues to count.
    pub tries: u32,
    pub created_at_ms: i64,
    /// When the next try is due while pending.
    pub next_try_at_ms: i64,
}

/// One try of a delivery.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeliveryTry {
    pub number: u32,
    pub at_ms: i64,
    pub latency: Duration,
    /// The reply's status; `None` without a reply.
    pub status: Option<u16>,
    pub error: Option<String>,
    /// The first bytes of the reply.
    pub reply: Vec<u8>,
}

/// The outcome of a try.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TryOutcome {
    Delivered,
    Again { at_ms: i64 },
    GaveUp,
}

/// A report on one try.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TryReport {
    pub id: DeliveryId,
    /// Must be the delivery's `tries` plus one when it was handed out; otherwise the report is stale and
    /// changes nothing.
    pub attempt: DeliveryTry,
    pub outcome: TryOutcome,
}

/// A delivery that is returned untried.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PutOff {
    pub id: DeliveryId,
    /// The delivery's tries when it was handed out. With another number by now, another server holds it.
    pub tries: u32,
    /// When it is due again, Unix milliseconds.
    pub at_ms: i64,
}

/// Which deliveries to list or replay.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DeliveryFilter {
    pub id: Option<DeliveryId>,
    pub tenant: Option<TenantId>,
    pub queue: Option<QueueName>,
    pub job: Option<JobId>,
    pub state: Option<DeliveryState>,
    /// Made at or after this, Unix milliseconds.
    pub since_ms: Option<i64>,
}

/// A delivery with its tries.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeliveryView {
    pub delivery: Delivery,
    pub tries: Vec<DeliveryTry>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_webhook_is_told_of_endings_unless_it_asks_for_others() {
        let mut hook = Webhook::to("https://example.test/hook");
        assert!(hook.wants(EventKind::Failed) && !hook.wants(EventKind::Retrying));
        hook.events = vec![EventKind::Retrying];
        assert!(hook.wants(EventKind::Retrying) && !hook.wants(EventKind::Failed));
        hook.check().unwrap();
    }

    #[test]
    fn a_webhook_that_cannot_be_called_is_refused() {
        assert!(Webhook::to("ftp://example.test/").check().is_err());
        assert!(Webhook::to("http://example.test/ x").check().is_err());
        assert!(Webhook::to("http://").check().is_err());
        assert!(Webhook::to("http://example.test:99999/").check().is_err());
        let mut hook = Webhook::to("http://example.test/");
        hook.headers = vec![("x".into(), "a\r\nb".into())];
        assert!(hook.check().is_err());
        hook.headers.clear();
        hook.events = vec![EventKind::Progress];
        assert!(hook.check().is_err());
    }
}
