//! How stores encode what SQL need not read: options, settings and templates, as JSON.
//!
//! Both stores use these forms, so a row of one means the same in the other. Fields may be added with a
//! default; none is ever renamed.

mod form;

use std::time::Duration;

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::backoff::Backoff;
use crate::delivery::Webhook;
use crate::error::Error;
use crate::event::{EventData, EventFilter, EventKind};
use crate::id::JobId;
use crate::job::{Concurrency, Idempotency, NewJob, TraceContext};
use crate::queue::QueueSettings;
use crate::schedule::Missed;

/// The options of a job that have no column of their own.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct JobOptions {
    pub tags: Vec<String>,
    pub backoff: Backoff,
    pub idempotency_key: Option<String>,
    pub unique_key: Option<String>,
    pub depends_on: Vec<JobId>,
    pub concurrency: Option<Concurrency>,
    pub webhook: Option<Webhook>,
    pub retention: Option<Duration>,
    pub trace: Option<TraceContext>,
}

impl JobOptions {
    /// Takes the options of a registration, and what it leaves open from its queue.
    pub fn of(job: &NewJob, queue: &QueueSettings) -> JobOptions {
        JobOptions {
            tags: job.tags.clone(),
            backoff: job.backoff.unwrap_or(queue.backoff),
            idempotency_key: job.idempotency.as_ref().map(|one: &Idempotency| one.key.clone()),
            unique_key: job.unique_key.clone(),
            depends_on: job.depends_on.clone(),
            concurrency: job.concurrency.clone(),
            webhook: job.webhook.clone(),
            retention: job.retention,
            trace: job.trace.clone(),
        }
    }

    /// Returns the text to store; `None` for the options of most jobs.
    pub fn write(&self) -> Option<String> {
        (*self != JobOptions::default()).then(|| text(&form::JobOptions::from(self)))
    }

    pub fn read(text: Option<&str>) -> Result<JobOptions, Error> {
        match text {
            None => Ok(JobOptions::default()),
            Some(text) => Ok(parse::<form::JobOptions>("job options", text)?.into()),
        }
    }
}

pub fn write_settings(settings: &QueueSettings) -> String {
    text(&form::QueueSettings::from(settings))
}

pub fn read_settings(text: &str) -> Result<QueueSettings, Error> {
    Ok(parse::<form::QueueSettings>("queue settings", text)?.into())
}

/// Writes the job of a schedule, whole.
pub fn write_template(job: &NewJob) -> String {
    text(&form::Template::from(job))
}

pub fn read_template(text: &str) -> Result<NewJob, Error> {
    parse::<form::Template>("schedule", text)?.into_job()
}

pub fn write_webhook(webhook: &Webhook) -> String {
    text(&form::Webhook::from(webhook))
}

pub fn read_webhook(text: &str) -> Result<Webhook, Error> {
    Ok(parse::<form::Webhook>("webhook", text)?.into())
}

pub fn write_filter(filter: &EventFilter) -> String {
    text(&form::EventFilter::from(filter))
}

pub fn read_filter(text: &str) -> Result<EventFilter, Error> {
    parse::<form::EventFilter>("subscription", text)?.into_filter()
}

/// Writes the data that an event stores in its own row. The body of an ending is in the row of the job.
pub fn write_event_data(data: &EventData) -> Option<String> {
    match data {
        EventData::None | EventData::Result(_) | EventData::Error(_) => None,
        EventData::Progress(progress) => Some(text(&form::Progress::from(progress))),
        EventData::Retry { error, run_at_ms } => Some(text(&form::Retry {
            error: error.clone(),
            run_at_ms: *run_at_ms,
        })),
    }
}

/// Reads the data of an event of this kind. Empty for an ending: the store finds that in the row of the job.
pub fn read_event_data(kind: EventKind, text: Option<&str>) -> Result<EventData, Error> {
    match (kind, text) {
        (EventKind::Progress, Some(text)) => Ok(EventData::Progress(
            parse::<form::Progress>("event", text)?.into(),
        )),
        (EventKind::Retrying | EventKind::Released, Some(text)) => {
            let retry: form::Retry = parse("event", text)?;
            Ok(EventData::Retry {
                error: retry.error,
                run_at_ms: retry.run_at_ms,
            })
        }
        _ => Ok(EventData::None),
    }
}

pub fn write_missed(missed: Missed) -> String {
    match missed {
        Missed::Skip => "skip".into(),
        Missed::Once => "once".into(),
        Missed::All { max } => format!("all {max}"),
    }
}

pub fn read_missed(text: &str) -> Result<Missed, Error> {
    match (text, text.strip_prefix("all ").map(str::parse)) {
        ("skip", _) => Ok(Missed::Skip),
        ("once", _) => Ok(Missed::Once),
        (_, Some(Ok(max))) => Ok(Missed::All { max }),
        _ => Err(damaged("schedule", "missed runs")),
    }
}

fn text(form: &impl Serialize) -> String {
    serde_json::to_string(form).expect("forms have string keys and no floats")
}

fn parse<F: DeserializeOwned>(what: &'static str, text: &str) -> Result<F, Error> {
    serde_json::from_str(text).map_err(|error| damaged(what, &error.to_string()))
}

fn damaged(what: &str, why: &str) -> Error {
    Error::Damaged {
        what: format!("{what}: {why}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::job::Body;
    use crate::name::{QueueName, TenantId};
    use crate::queue::{EventDetail, Push};
    use crate::rate::Rate;
    use crate::view::Progress;

    fn full_job() -> NewJob {
        let mut job = NewJob::new(
            TenantId::new("shop").unwrap(),
            QueueName::new("mail").unwrap(),
            Body {
                content_type: Some("image/png".into()),
                bytes: vec![0, 159, 255].into(),
            },
        );
        job.kind = Some("welcome".into());
        job.tags = vec!["a".into()];
        job.priority = -3;
        job.timeout = Some(Duration::from_secs(9));
        job.max_retries = Some(2);
        job.backoff = Some(Backoff::Fixed {
            delay: Duration::from_millis(1_500),
        });
        job.idempotency = Some(Idempotency {
            key: "k".into(),
            window: Some(Duration::from_secs(4)),
            fingerprint: None,
        });
        job.unique_key = Some("u".into());
        job.depends_on = vec![JobId::new(i64::MAX).unwrap()];
        job.concurrency = Some(Concurrency {
            key: "c".into(),
            limit: 2,
        });
        let mut webhook = Webhook::to("https://example.test/");
        webhook.headers = vec![("x".into(), "y".into())];
        webhook.events = vec![EventKind::Failed];
        webhook.cloud_events = true;
        job.webhook = Some(webhook);
        job.retention = Some(Duration::from_secs(60));
        job.trace = Some(TraceContext {
            parent: "00-1-2-3".into(),
            state: Some("s".into()),
        });
        job
    }

    #[test]
    fn options_come_back_as_they_went() {
        let options = JobOptions::of(&full_job(), &QueueSettings::default());
        assert_eq!(JobOptions::read(options.write().as_deref()).unwrap(), options);
    }

    #[test]
    fn usual_options_take_no_room() {
        let job = NewJob::new(
            TenantId::default_tenant(),
            QueueName::notifications(),
            Body::default(),
        );
        assert_eq!(JobOptions::of(&job, &QueueSettings::default()).write(), None);
    }

    #[test]
    fn templates_come_back_as_they_went() {
        assert_eq!(read_template(&write_template(&full_job())).unwrap(), full_job());
    }

    #[test]
    fn settings_come_back_as_they_went() {
        let mut settings = QueueSettings::default();
        assert_eq!(read_settings(&write_settings(&settings)).unwrap(), settings);
        assert_eq!(
            read_settings("{}").unwrap(),
            settings,
            "what is missing is the default"
        );
        settings.backoff = Backoff::None;
        settings.depth_max = Some(7);
        settings.rate = Some(Rate {
            jobs: 3,
            per: Duration::from_secs(1),
        });
        settings.events = EventDetail::Ends;
        settings.webhook = full_job().webhook;
        settings.push = Some(Push {
            url: "http://w/".into(),
            headers: vec![("a".into(), "b".into())],
            concurrency: 4,
        });
        settings.notify = vec!["mail".into()];
        assert_eq!(read_settings(&write_settings(&settings)).unwrap(), settings);
    }

    #[test]
    fn filters_and_policies_come_back_as_they_went() {
        let filter = EventFilter {
            tenant: Some(TenantId::default_tenant()),
            queue: Some(QueueName::notifications()),
            job: JobId::new(4),
            kinds: vec![EventKind::LeaseLost],
        };
        assert_eq!(read_filter(&write_filter(&filter)).unwrap(), filter);
        for missed in [Missed::Skip, Missed::Once, Missed::All { max: 3 }] {
            assert_eq!(read_missed(&write_missed(missed)).unwrap(), missed);
        }
    }

    #[test]
    fn data_of_events_comes_back_as_it_went() {
        let progress = EventData::Progress(Progress {
            per_mille: Some(7),
            message: Some("m".into()),
            data: Some("[1]".into()),
            at_ms: 9,
        });
        let retry = EventData::Retry {
            error: None,
            run_at_ms: 5,
        };
        for (kind, data) in [(EventKind::Progress, progress), (EventKind::Retrying, retry)] {
            let text = write_event_data(&data);
            assert_eq!(read_event_data(kind, text.as_deref()).unwrap(), data);
        }
        assert_eq!(write_event_data(&EventData::Error("x".into())), None);
    }

    #[test]
    fn what_nobody_wrote_is_damage() {
        assert!(matches!(read_settings("["), Err(Error::Damaged { .. })));
        assert!(matches!(read_missed("some"), Err(Error::Damaged { .. })));
    }
}
