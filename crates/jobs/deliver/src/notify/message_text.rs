//! The text of notifications.

use nagaya_jobs::clock::span;
use serde::{Deserialize, Serialize};

use super::groups::Notice;
use crate::undelivered;

/// A message to administrators.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
pub(super) struct Message {
    pub(super) subject: String,
    pub(super) text: String,
}

pub(super) fn notice(notice: &Notice, public_url: Option<&str>) -> Message {
    let subject = subject(notice);
    let mut text = format!("{subject}.\n\nFirst error: {}\n", notice.first_error);
    match public_url.map(|url| url.trim_end_matches('/')) {
        Some(url) => text.push_str(&format!("First job: {url}/v1/jobs/{}\n", notice.first_job)),
        None => text.push_str(&format!("First job: {}\n", notice.first_job)),
    }
    Message { subject, text }
}

fn subject(notice: &Notice) -> String {
    let count = notice.count;
    let during = during(notice.last_at_ms - notice.first_at_ms);
    let kind = notice.key.kind.as_deref();
    if notice.key.queue == undelivered::queue().as_str() {
        let noun = if count == 1 { "result" } else { "results" };
        return format!(
            "{count} {noun} of queue {} did not arrive{during}",
            kind.unwrap_or("?")
        );
    }
    let noun = if count == 1 { "job" } else { "jobs" };
    let of_kind = kind.map(|kind| format!(" of kind {kind}")).unwrap_or_default();
    format!(
        "{count} {noun}{of_kind} in queue {} failed for good{during}",
        notice.key.queue
    )
}

/// Formats a duration for people; empty for a moment.
fn during(ms: i64) -> String {
    match span(ms).as_secs() {
        0 => String::new(),
        1 => " within a second".to_owned(),
        seconds @ 2..120 => format!(" within {seconds} seconds"),
        seconds => format!(" within {} minutes", seconds.div_ceil(60)),
    }
}

pub(super) fn test(route: &str) -> Message {
    Message {
        subject: format!("Test of the route {route}"),
        text: format!("This is a test of the notification route {route}. Nothing has failed.\n"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::notify::GroupKey;
    use nagaya_jobs::JobId;

    fn of(queue: &str, kind: Option<&str>, count: u64, ms: i64) -> Notice {
        Notice {
            key: GroupKey {
                queue: queue.into(),
                kind: kind.map(str::to_owned),
            },
            count,
            first_seq: 1,
            last_seq: 2,
            first_at_ms: 0,
            last_at_ms: ms,
            first_job: JobId::new(77).unwrap(),
            first_error: "boom".into(),
        }
    }

    #[test]
    fn a_notice_says_how_many_of_what_since_when_and_why() {
        let message = notice(
            &of("mail", Some("send"), 412, 290_000),
            Some("https://jobs.test/"),
        );
        assert_eq!(
            message.subject,
            "412 jobs of kind send in queue mail failed for good within 5 minutes"
        );
        assert!(message.text.contains("First error: boom\n"), "{}", message.text);
        assert!(
            message.text.contains("First job: https://jobs.test/v1/jobs/77\n"),
            "{}",
            message.text
        );
    }

    #[test]
    fn a_notice_of_one_and_one_of_a_result_read_well() {
        assert_eq!(
            subject(&of("mail", None, 1, 0)),
            "1 job in queue mail failed for good"
        );
        let lost = of("_undelivered", Some("mail"), 3, 61_000);
        assert_eq!(
            subject(&lost),
            "3 results of queue mail did not arrive within 61 seconds"
        );
    }
}
