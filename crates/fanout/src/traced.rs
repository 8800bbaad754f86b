//! The spans of a request: one for the request, one per endpoint, and one per write to the store.
//!
//! They are only created where spans are exported. The caller's trace is passed on to the endpoints in any
//! case.

use std::sync::Arc;

use http::{HeaderMap, HeaderName, HeaderValue};
use nagaya_telemetry::trace::{self, TRACEPARENT, TRACESTATE};
use tracing::{Span, info_span};

use crate::request::Outgoing;

/// Trace headers, which endpoints receive unchanged unless we create spans ourselves.
pub(crate) const HEADERS: [HeaderName; 2] = [
    HeaderName::from_static(TRACEPARENT),
    HeaderName::from_static(TRACESTATE),
];

/// Creates the span of a whole request, in the client's trace.
pub(crate) fn request(method: &str, headers: &HeaderMap) -> Span {
    if !trace::is_on() {
        return Span::none();
    }
    let text = |name| {
        headers
            .get(name)
            .and_then(|value: &HeaderValue| value.to_str().ok())
    };
    let span = info_span!("fanout_request", method);
    trace::hang(&span, text(TRACEPARENT), text(TRACESTATE));
    span
}

/// Creates the span of one endpoint's part, below that of the request.
pub(crate) fn fetch(endpoint: &str) -> Span {
    if trace::is_on() {
        info_span!("fanout_fetch", endpoint, outcome = tracing::field::Empty)
    } else {
        Span::none()
    }
}

/// Creates the span of a write to the store.
pub(crate) fn store(answers: usize) -> Span {
    if trace::is_on() {
        info_span!("fanout_store", answers)
    } else {
        Span::none()
    }
}

/// Returns the outgoing request with the span that the endpoint's spans become children of.
pub(crate) fn below(span: &Span, outgoing: Arc<Outgoing>) -> Arc<Outgoing> {
    let parent = trace::traceparent(span).and_then(|text| HeaderValue::try_from(text).ok());
    match parent {
        None => outgoing,
        Some(parent) => {
            let mut own = Arc::unwrap_or_clone(outgoing);
            own.headers.insert(HEADERS[0].clone(), parent);
            Arc::new(own)
        }
    }
}
