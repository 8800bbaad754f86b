//! The body of a delivery: the full event, or a shortened one with a link.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use http::HeaderMap;
use http::header::{CONTENT_TYPE, HeaderName, HeaderValue, USER_AGENT};
use nagaya_jobs::delivery::Delivery;
use nagaya_jobs::event::{Event, EventData};
use nagaya_jobs::job::Body;
use serde::Serialize;
use serde_json::value::RawValue;

/// Headers of the connection itself: a submitter's value would change the request.
const RESERVED_HEADERS: [&str; 10] = [
    "connection",
    "content-length",
    "expect",
    "host",
    "keep-alive",
    "proxy-connection",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
];

/// Configuration of bodies.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BodyConfig {
    /// An event whose body would be larger is sent without its result or error.
    pub bytes_max: usize,
    /// Public address of this server, for links: `https://jobs.example.com`.
    pub public_url: Option<String>,
}

impl Default for BodyConfig {
    fn default() -> BodyConfig {
        BodyConfig {
            bytes_max: 20 << 10,
            public_url: None,
        }
    }
}

/// Returns the id by which a receiver drops duplicates: the same for every attempt and replay of a delivery.
/// A position alone could collide with that of another server that sends to the same receiver.
pub(super) fn message_id(delivery: &Delivery) -> String {
    format!("evt_{}_{}", delivery.job, delivery.seq)
}

/// Headers and body of a request, without the signature.
pub(super) struct Message {
    pub(super) headers: HeaderMap,
    pub(super) body: Bytes,
}

pub(super) fn message(delivery: &Delivery, event: Option<&Event>, config: &BodyConfig) -> Message {
    let mut headers = own_headers(delivery);
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    headers.insert(
        USER_AGENT,
        HeaderValue::from_static(concat!("nagaya/", env!("CARGO_PKG_VERSION"))),
    );
    if delivery.webhook.cloud_events {
        add_cloud_headers(&mut headers, delivery, event, config);
    }
    let data = Data::of(delivery, event, config);
    let mut body = write(&data, delivery, event);
    if body.len() > config.bytes_max {
        body = write(&data.thin(), delivery, event);
    }
    Message {
        headers,
        body: body.into(),
    }
}

fn own_headers(delivery: &Delivery) -> HeaderMap {
    let mut headers = HeaderMap::new();
    for (name, value) in &delivery.webhook.headers {
        // Validated at registration; what is no longer valid is left out.
        if let (Ok(name), Ok(value)) = (HeaderName::try_from(name), HeaderValue::try_from(value))
            && !RESERVED_HEADERS.contains(&name.as_str())
        {
            headers.insert(name, value);
        }
    }
    headers
}

fn add_cloud_headers(
    headers: &mut HeaderMap,
    delivery: &Delivery,
    event: Option<&Event>,
    config: &BodyConfig,
) {
    let source = config
        .public_url
        .clone()
        .unwrap_or_else(|| "/nagaya/jobs".to_owned());
    for (name, value) in [
        ("ce-specversion", "1.0".to_owned()),
        ("ce-id", message_id(delivery)),
        ("ce-source", source),
        ("ce-type", kind(delivery)),
        ("ce-subject", delivery.job.to_string()),
        ("ce-time", time(at_ms(delivery, event))),
    ] {
        if let Ok(value) = HeaderValue::try_from(value) {
            headers.insert(HeaderName::from_static(name), value);
        }
    }
}

fn kind(delivery: &Delivery) -> String {
    format!("job.{}", delivery.kind.name())
}

fn at_ms(delivery: &Delivery, event: Option<&Event>) -> i64 {
    event.map_or(delivery.created_at_ms, |event| event.at_ms)
}

/// The body format of Standard Webhooks.
#[derive(Serialize)]
struct Envelope<'a> {
    #[serde(rename = "type")]
    kind: String,
    timestamp: String,
    data: &'a Data<'a>,
}

/// The event as readers of the log see it.
#[derive(Serialize)]
struct Data<'a> {
    id: String,
    kind: &'static str,
    job: String,
    queue: &'a str,
    tenant: &'a str,
    attempt: u32,
    at: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    job_kind: Option<&'a str>,
    #[serde(flatten)]
    rest: Rest<'a>,
    /// Result and error are left out: too large, or no longer in the log.
    #[serde(skip_serializing_if = "is_false")]
    thin: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    url: Option<String>,
}

/// The fields of an event that depend on its kind.
#[derive(Default, Serialize)]
struct Rest<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    run_at: Option<String>,
    /// Exactly as the worker wrote it.
    #[serde(skip_serializing_if = "Option::is_none")]
    result: Option<&'a RawValue>,
    #[serde(skip_serializing_if = "Option::is_none")]
    result_base64: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    result_content_type: Option<&'a str>,
}

fn is_false(value: &bool) -> bool {
    !value
}

impl<'a> Data<'a> {
    fn of(delivery: &'a Delivery, event: Option<&'a Event>, config: &BodyConfig) -> Data<'a> {
        let url = config.public_url.as_deref().map(|url| url.trim_end_matches('/'));
        Data {
            id: delivery.seq.to_string(),
            kind: delivery.kind.name(),
            job: delivery.job.to_string(),
            queue: delivery.queue.as_str(),
            tenant: delivery.tenant.as_str(),
            attempt: delivery.attempt,
            at: time(at_ms(delivery, event)),
            job_kind: event.and_then(|event| event.job_kind.as_deref()),
            rest: event.map(|event| rest(&event.data)).unwrap_or_default(),
            thin: event.is_none(),
            url: url.map(|url| format!("{url}/v1/jobs/{}", delivery.job)),
        }
    }

    fn thin(self) -> Data<'a> {
        Data {
            rest: Rest::default(),
            thin: true,
            ..self
        }
    }
}

fn rest(data: &EventData) -> Rest<'_> {
    match data {
        EventData::None | EventData::Progress(_) => Rest::default(),
        EventData::Error(error) => Rest {
            error: Some(error),
            ..Rest::default()
        },
        EventData::Retry { error, run_at_ms } => Rest {
            error: error.as_deref(),
            run_at: Some(time(*run_at_ms)),
            ..Rest::default()
        },
        EventData::Result(body) => result(body),
    }
}

fn result(body: &Body) -> Rest<'_> {
    let json = if body.is_json() && body.check("result").is_ok() {
        serde_json::from_slice::<&RawValue>(&body.bytes).ok()
    } else {
        None
    };
    match json {
        Some(json) => Rest {
            result: Some(json),
            ..Rest::default()
        },
        None => Rest {
            result_base64: Some(STANDARD.encode(&body.bytes)),
            result_content_type: Some(body.content_type()),
            ..Rest::default()
        },
    }
}

fn write(data: &Data<'_>, delivery: &Delivery, event: Option<&Event>) -> Vec<u8> {
    let written = if delivery.webhook.cloud_events {
        serde_json::to_vec(data)
    } else {
        serde_json::to_vec(&Envelope {
            kind: kind(delivery),
            timestamp: time(at_ms(delivery, event)),
            data,
        })
    };
    written.expect("a document of plain fields")
}

fn time(ms: i64) -> String {
    jiff::Timestamp::from_millisecond(ms).map_or_else(|_| ms.to_string(), |time| time.to_string())
}
