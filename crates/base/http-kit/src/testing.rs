//! Helpers for tests that compare whole responses.

use std::pin::pin;
use std::task::{Context, Poll, Waker};

use bytes::Bytes;
use http::Response;
use http_body::Body;
use http_body_util::BodyExt;

/// Returns a response as text: the status, the headers in order of insertion, an empty line and the body.
///
/// # Panics
///
/// If the body is not complete already, or the body or a header is not UTF-8.
pub fn transcript<B>(response: Response<B>) -> String
where
    B: Body<Data = Bytes>,
    B::Error: std::fmt::Debug,
{
    let (head, body) = response.into_parts();
    let mut text = format!("{}\n", head.status.as_u16());
    for (name, value) in &head.headers {
        let value = value.to_str().expect("a header in ASCII");
        text.push_str(&format!("{name}: {value}\n"));
    }
    let collecting = pin!(body.collect());
    let Poll::Ready(body) = collecting.poll(&mut Context::from_waker(Waker::noop())) else {
        panic!("the body is still being made");
    };
    text.push('\n');
    let body = body.expect("a whole body").to_bytes();
    text.push_str(std::str::from_utf8(&body).expect("a body in UTF-8"));
    text
}

/// Joins the transcripts of several responses, each followed by a line `---`.
pub fn transcripts<B>(responses: impl IntoIterator<Item = Response<B>>) -> String
where
    B: Body<Data = Bytes>,
    B::Error: std::fmt::Debug,
{
    let texts = responses
        .into_iter()
        .map(|response| transcript(response) + "\n---\n");
    texts.collect()
}
