//! Counts, times and traces every request.

use std::sync::Arc;

use axum::extract::{MatchedPath, Request, State};
use axum::http::{HeaderMap, Method};
use axum::middleware::Next;
use axum::response::Response;
use nagaya_telemetry::trace::{self, TRACEPARENT, TRACESTATE};
use tracing::{Instrument, Span, debug, field, info_span};

use super::routes::HttpState;

/// The route label of requests that no route takes.
const NO_ROUTE: &str = "unmatched";

pub(super) async fn observe(State(state): State<Arc<HttpState>>, request: Request, next: Next) -> Response {
    let started = state.clock.now();
    let method = method_label(request.method());
    let matched = request.extensions().get::<MatchedPath>().cloned();
    let route = matched.as_ref().map_or(NO_ROUTE, MatchedPath::as_str);
    let span = info_span!("http_request", method, route, status = field::Empty);
    join_trace(&span, request.headers());
    let response = next.run(request).instrument(span.clone()).await;
    let status = response.status().as_u16();
    span.record("status", status);
    let took = state.clock.now() - started;
    state.metrics.http.record(method, route, status, took);
    debug!(parent: &span, took_us = u64::try_from(took.as_micros()).unwrap_or(u64::MAX), "request answered");
    response
}

/// Makes the span part of the trace that the caller names.
fn join_trace(span: &Span, headers: &HeaderMap) {
    let text = |name| headers.get(name).and_then(|value| value.to_str().ok());
    trace::hang(span, text(TRACEPARENT), text(TRACESTATE));
}

/// Methods are a closed set here: a client may send any word as a method.
fn method_label(method: &Method) -> &'static str {
    match *method {
        Method::GET => "GET",
        Method::HEAD => "HEAD",
        Method::POST => "POST",
        Method::PUT => "PUT",
        Method::PATCH => "PATCH",
        Method::DELETE => "DELETE",
        Method::OPTIONS => "OPTIONS",
        _ => "other",
    }
}
