//! Traces across processes, propagated as W3C Trace Context.
//!
//! Spans are exported only if an endpoint is configured. Otherwise these functions change nothing, and the
//! caller's headers are passed on unchanged.

use std::sync::atomic::{AtomicBool, Ordering};

use tracing::Span;

/// The header, in lower case as HTTP/2 and gRPC have it, that names trace and parent.
pub const TRACEPARENT: &str = "traceparent";
/// The header with the data of tracing systems.
pub const TRACESTATE: &str = "tracestate";

static IS_ON: AtomicBool = AtomicBool::new(false);

/// Returns whether spans of this process are exported.
pub fn is_on() -> bool {
    IS_ON.load(Ordering::Relaxed)
}

#[cfg(feature = "otlp")]
pub(crate) fn switch_on() {
    IS_ON.store(true, Ordering::Relaxed);
}

/// A parsed `traceparent`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Parent {
    trace: u128,
    span: u64,
    flags: u8,
}

/// Returns whether a text can be passed on as a `traceparent`.
pub fn is_traceparent(text: &str) -> bool {
    parse(text).is_some()
}

/// Makes a span part of a trace that began elsewhere; a text that is no `traceparent` changes nothing.
///
/// Call it before the span is entered: afterwards its parent is fixed.
pub fn hang(span: &Span, traceparent: Option<&str>, tracestate: Option<&str>) {
    if let Some(parent) = traceparent.filter(|_| is_on()).and_then(parse) {
        export::hang(span, parent, tracestate);
    }
}

/// Returns the `traceparent` for children of this span; `None` unless it is exported.
pub fn traceparent(span: &Span) -> Option<String> {
    if !is_on() {
        return None;
    }
    let Parent { trace, span, flags } = export::parent(span)?;
    Some(format!("00-{trace:032x}-{span:016x}-{flags:02x}"))
}

/// Reads version 00, and of later ones what they have in common with it.
fn parse(text: &str) -> Option<Parent> {
    let hex = |from: usize, to: usize| {
        let part = text.get(from..to)?;
        let is_hex = part
            .bytes()
            .all(|byte| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte));
        is_hex.then_some(part)
    };
    let dashes = [2, 35, 52];
    if dashes.iter().any(|at| text.as_bytes().get(*at) != Some(&b'-')) {
        return None;
    }
    let rest = &text.as_bytes()[55.min(text.len())..];
    match hex(0, 2)? {
        "ff" => return None,
        "00" if !rest.is_empty() => return None,
        _ if rest.first().is_some_and(|byte| *byte != b'-') => return None,
        _ => (),
    }
    let parent = Parent {
        trace: u128::from_str_radix(hex(3, 35)?, 16).ok()?,
        span: u64::from_str_radix(hex(36, 52)?, 16).ok()?,
        flags: u8::from_str_radix(hex(53, 55)?, 16).ok()?,
    };
    (parent.trace != 0 && parent.span != 0).then_some(parent)
}

#[cfg(feature = "otlp")]
mod export {
    use std::str::FromStr;

    use opentelemetry::Context;
    use opentelemetry::trace::{SpanContext, SpanId, TraceContextExt, TraceFlags, TraceId, TraceState};
    use tracing::Span;
    use tracing_opentelemetry::OpenTelemetrySpanExt;

    use super::Parent;

    pub(super) fn hang(span: &Span, parent: Parent, tracestate: Option<&str>) {
        let state = tracestate.and_then(|text| TraceState::from_str(text).ok());
        let context = SpanContext::new(
            TraceId::from_bytes(parent.trace.to_be_bytes()),
            SpanId::from_bytes(parent.span.to_be_bytes()),
            TraceFlags::new(parent.flags) & TraceFlags::SAMPLED,
            true,
            state.unwrap_or_default(),
        );
        // A span that a filter drops belongs to no trace.
        span.set_parent(Context::new().with_remote_span_context(context))
            .ok();
    }

    pub(super) fn parent(span: &Span) -> Option<Parent> {
        let context = span.context();
        let span = context.span();
        let context = span.span_context();
        context.is_valid().then(|| Parent {
            trace: u128::from_be_bytes(context.trace_id().to_bytes()),
            span: u64::from_be_bytes(context.span_id().to_bytes()),
            flags: context.trace_flags().to_u8(),
        })
    }
}

#[cfg(not(feature = "otlp"))]
mod export {
    use tracing::Span;

    use super::Parent;

    pub(super) fn hang(_span: &Span, _parent: Parent, _tracestate: Option<&str>) {}

    pub(super) fn parent(_span: &Span) -> Option<Parent> {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_the_standard_allows_is_a_traceparent() {
        let good = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
        let parent = parse(good).unwrap();
        assert_eq!((parent.span, parent.flags), (0xb7ad_6b71_6920_3331, 1));
        assert!(is_traceparent(&format!("cc{}-later", &good[2..])));
        for bad in [
            "",
            "p",
            &format!("{good}-x"),
            &format!("{good}0"),
            &format!("ff{}", &good[2..]),
            &good.to_uppercase(),
            &good.replace('-', "_"),
            "00-00000000000000000000000000000000-b7ad6b7169203331-01",
            "00-0af7651916cd43dd8448eb211c80319c-0000000000000000-01",
            "00-0af7651916cd43dd8448eb211c80319ä-b7ad6b716920333-01",
        ] {
            assert!(!is_traceparent(bad), "{bad}");
        }
    }

    #[test]
    fn nothing_is_hung_and_nothing_told_where_nothing_is_exported() {
        let span = tracing::info_span!("quiet");
        hang(
            &span,
            Some("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"),
            None,
        );
        assert_eq!(traceparent(&span), None);
    }
}
