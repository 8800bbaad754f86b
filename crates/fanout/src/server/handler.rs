//! Handles one HTTP request: a read-back or a fan-out.

use std::sync::Arc;

use bytes::Bytes;
use http::header::{ACCEPT, CONTENT_TYPE};
use http::request::Parts;
use http::{HeaderMap, Method, Request, Response, StatusCode, Uri};
use http_body_util::{BodyExt, Either, Full, LengthLimitError, Limited};
use hyper::body::Body;
use nagaya_http_kit::bearer;
use nagaya_http_kit::server::{BodyControl, RequestBody};
use percent_encoding::percent_decode_str;
use serde_json::{Value, json};
use tokio::time::Instant;

use super::call::Call;
use super::events::{self, Events};
use super::problem::Problem;
use super::told::Source;
use super::websocket::{self, Handshake};
use super::{JSON, Reply};
use crate::endpoint::ShedReason;
use crate::ids;
use crate::read_back::{Follower, Wanted, parse_timeout, show};
use crate::request::{Outgoing, VIA_HEADER};
use crate::service::{Arrival, Fanout, Refusal, Taken};
use crate::stats::RejectReason;
use crate::traced;

/// Prefix of read-back paths; everything else is fanned out.
const READ_BACK: &str = "/requests/";

/// Handles one request.
pub(super) async fn handle(fanout: &Arc<Fanout>, request: Request<RequestBody>) -> Reply {
    let at = Instant::now();
    let control = request.extensions().get::<BodyControl>().cloned();
    let answered = match request.method() {
        _ if !is_allowed(fanout, request.headers()) => Err(Problem::new(
            StatusCode::UNAUTHORIZED,
            "this needs the header `Authorization: Bearer TOKEN` with the token of `fanout.token`",
        )),
        &Method::GET => match read_back_id(request.uri()) {
            Some(id) => {
                let id = id.to_owned();
                read_back(fanout, id, request.into_parts().0).await
            }
            None => fan_out(fanout, request, at, control).await,
        },
        &Method::POST => fan_out(fanout, request, at, control).await,
        method => {
            fanout.counts().reject(RejectReason::Bad);
            let detail = format!("method {method} is not allowed");
            Err(Problem::new(StatusCode::METHOD_NOT_ALLOWED, detail))
        }
    };
    answered.unwrap_or_else(Problem::reply)
}

fn is_allowed(fanout: &Fanout, headers: &HeaderMap) -> bool {
    match &fanout.config.token {
        Some(token) => bearer::matches(headers, token.reveal().as_bytes()),
        None => true,
    }
}

fn read_back_id(uri: &Uri) -> Option<&str> {
    uri.path().strip_prefix(READ_BACK).filter(|id| ids::is_id(id))
}

async fn fan_out(
    fanout: &Arc<Fanout>,
    request: Request<RequestBody>,
    at: Instant,
    control: Option<BodyControl>,
) -> Result<Reply, Problem> {
    let counts = fanout.counts();
    if fanout.is_loop(request.headers()) {
        counts.reject(RejectReason::Loop);
        let detail = "this request has come back to where it was fanned out; an endpoint points at us";
        return Err(Problem::new(StatusCode::LOOP_DETECTED, detail));
    }
    if let Some(control) = control.as_ref().filter(|_| fanout.config.token.is_some()) {
        control.signed_in();
    }
    let (mut head, body) = request.into_parts();
    let call = Call::of(fanout, &mut head)?;
    let body = if head.method == Method::POST {
        read_body(fanout, body).await?
    } else {
        Bytes::new()
    };
    // Only now: a client that is slow with its body must not keep others from being handled.
    let Some(handler) = fanout.handler() else {
        counts.reject(RejectReason::Busy);
        let (busy, max) = (fanout.in_flight().0, fanout.config.handlers);
        let detail = format!(
            "{busy} requests are being taken in, and no more can be now: `fanout.handlers` allows {max}, and fewer \
             while replies take long; try again later"
        );
        return Err(Problem::new(StatusCode::SERVICE_UNAVAILABLE, detail));
    };
    let via = head
        .headers
        .get_all(VIA_HEADER)
        .iter()
        .filter_map(|value| value.to_str().ok());
    let via: Vec<&str> = via.collect();
    let path = head.uri.path_and_query().map_or("/", |path| path.as_str());
    let (span, url) = (
        traced::request(head.method.as_str(), &head.headers),
        path.to_owned(),
    );
    let forwarded = &fanout.forwarded;
    let mut outgoing = Outgoing::new(head.method, head.uri.query(), body, &head.headers, forwarded);
    outgoing.kept = control.map(|control| Arc::new(control.keep()));
    let arrival = Arrival {
        at,
        span,
        url,
        via: (!via.is_empty()).then(|| via.join(", ")),
        outgoing,
        wants_answers: call.is_some(),
    };
    let taken = fanout.take(arrival, handler).await.map_err(refused)?;
    match call {
        Some(call) => call.reply(fanout, taken, at).await,
        None => Ok(taken_reply(&taken)),
    }
}

/// Reads a body within its size limit; the listener limits the time.
async fn read_body(fanout: &Fanout, body: RequestBody) -> Result<Bytes, Problem> {
    let bad = |status, detail: String| {
        fanout.counts().reject(RejectReason::Bad);
        Problem::new(status, detail)
    };
    let max = fanout.config.request_max;
    let too_large = || {
        let detail = format!("the body is longer than `fanout.request_max`, which is {max}");
        bad(StatusCode::PAYLOAD_TOO_LARGE, detail)
    };
    if body.size_hint().lower() > max.0 {
        return Err(too_large());
    }
    match Limited::new(body, max.as_usize()).collect().await {
        Ok(body) => Ok(body.to_bytes()),
        Err(error) if error.is::<LengthLimitError>() => Err(too_large()),
        Err(error) => Err(bad(
            StatusCode::BAD_REQUEST,
            format!("the body cannot be read: {error}"),
        )),
    }
}

/// Formats the reply on one line as serinin does, plus the shed endpoints if there are any.
fn taken_reply(taken: &Taken) -> Reply {
    let id = &taken.id;
    let body = if taken.shed.is_empty() {
        format!(
            "{{\"request_id\":\"{id}\",\"endpoints\":{}}}\n",
            taken.set.names_json
        )
    } else {
        let is_shed = |name: &Arc<str>| taken.shed.iter().any(|(shed, _)| shed == name);
        let asked = taken
            .set
            .iter()
            .map(|endpoint| &endpoint.name)
            .filter(|name| !is_shed(name));
        let asked: Vec<&str> = asked.map(|name| &**name).collect();
        let shed = shed_json(&taken.shed);
        let (asked, shed) = (json!(asked), json!(shed));
        format!("{{\"request_id\":\"{id}\",\"endpoints\":{asked},\"shed\":{shed}}}\n")
    };
    json_reply(body)
}

fn json_reply(body: String) -> Reply {
    let mut reply = Response::new(Either::Left(Full::new(Bytes::from(body))));
    reply.headers_mut().insert(CONTENT_TYPE, JSON);
    reply
}

fn shed_json(shed: &[(Arc<str>, ShedReason)]) -> Vec<Value> {
    shed.iter()
        .map(|(name, reason)| json!({"endpoint": &**name, "reason": reason.words()}))
        .collect()
}

fn refused(refusal: Refusal) -> Problem {
    let unavailable = |detail: String| Problem::new(StatusCode::SERVICE_UNAVAILABLE, detail);
    match refusal {
        Refusal::NoEndpoints => unavailable(
            "there are no endpoints to send this to; name them in [fanout.endpoints] of the settings, or with \
             --set fanout.endpoints=NAME=URL,NAME=URL"
                .to_owned(),
        ),
        Refusal::AllShed(shed) => unavailable("no endpoint can be asked now; try again later".to_owned())
            .with("shed", shed_json(&shed)),
        Refusal::NoId(error) => unavailable(format!("there is no id for this request: {error}")),
        Refusal::Store { id, reason } => unavailable(format!(
            "the request could not be stored, so nobody was asked: {reason}"
        ))
        .with("request_id", &*id),
    }
}

async fn read_back(fanout: &Arc<Fanout>, id: String, mut head: Parts) -> Result<Reply, Problem> {
    let (mut wanted, mut limit) = (Wanted::Nothing, fanout.config.read_wait_max);
    for (name, value) in parameters(head.uri.query().unwrap_or_default()) {
        match name.as_str() {
            "wait" => wanted = Wanted::parse(&value),
            "timeout" => {
                limit = parse_timeout(&value).ok_or_else(|| {
                    let detail = "`timeout` must be a duration such as 500ms or 2s, or a number of seconds";
                    Problem::new(StatusCode::BAD_REQUEST, detail)
                })?;
            }
            _ => (),
        }
    }
    let mut follower = Follower::new(Arc::clone(fanout), id.clone(), limit);
    let failed = |error: crate::store::StoreError| {
        let detail = format!("the store cannot be read: {}", error.chain());
        Problem::new(StatusCode::SERVICE_UNAVAILABLE, detail)
    };
    let handshake = Handshake::of(&mut head).transpose()?;
    let wants_events = head.headers.get(ACCEPT).is_some_and(|value| {
        value
            .to_str()
            .is_ok_and(|value| value.contains("text/event-stream"))
    });
    let found = if wants_events || handshake.is_some() {
        follower.poll_store().await.map_err(failed)?
    } else {
        follower.wait_for(&wanted).await.map_err(failed)?
    };
    let Some(stored) = found else {
        let detail = format!("there is no request {id}; it has expired or never was");
        return Err(Problem::new(StatusCode::NOT_FOUND, detail));
    };
    let source = |follower| Source::Stored(Events::new(follower, id.clone(), &stored));
    Ok(match handshake {
        Some(handshake) => websocket::open(fanout, handshake, source(follower)),
        None if wants_events => events::stream(source(follower)),
        None => json_reply(format!("{}\n", show(&id, &stored))),
    })
}

/// Parses a query into decoded names and values.
fn parameters(query: &str) -> Vec<(String, String)> {
    let resolve = |text: &str| {
        let text = text.replace('+', " ");
        percent_decode_str(&text).decode_utf8_lossy().into_owned()
    };
    query
        .split('&')
        .filter(|pair| !pair.is_empty())
        .map(|pair| {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            (resolve(name), resolve(value))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use nagaya_http_kit::testing::transcripts;
    use nagaya_ids::mint::MintError;

    use super::*;

    #[test]
    fn problems_are_as_recorded() {
        let refusals = [
            Refusal::NoEndpoints,
            Refusal::AllShed(vec![(
                "a".into(),
                ShedReason::TooLate {
                    wait: std::time::Duration::from_millis(7),
                },
            )]),
            Refusal::NoId(MintError::NoNumber),
            Refusal::Store {
                id: "17".into(),
                reason: "redis is away".into(),
            },
        ];
        let mut problems: Vec<Problem> = refusals.into_iter().map(refused).collect();
        for status in [400, 401, 404, 405, 408, 413, 426, 503, 508] {
            problems.push(Problem::new(StatusCode::from_u16(status).unwrap(), "no \"あ\""));
        }
        let replies = problems.into_iter().map(Problem::reply);
        assert_eq!(transcripts(replies), include_str!("problem.golden"));
    }

    #[test]
    fn only_paths_with_an_id_are_read_back() {
        let id = |text: &str| read_back_id(&text.parse().unwrap()).map(str::to_owned);
        assert_eq!(id("/requests/123?wait=all").as_deref(), Some("123"));
        assert_eq!(id("/requests/new"), None);
        assert_eq!(id("/requests/"), None);
        assert_eq!(id("/requests/123/x"), None);
        assert_eq!(id("/x/requests/123"), None);
    }

    #[test]
    fn parameters_are_unescaped() {
        let read = parameters("wait=a%2Cb+c&timeout=2s&&x");
        let pair = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        assert_eq!(
            read,
            [pair("wait", "a,b c"), pair("timeout", "2s"), pair("x", "")]
        );
    }
}
