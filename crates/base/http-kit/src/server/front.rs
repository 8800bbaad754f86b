//! What every request passes before its service sees it: whose name it uses, which page sent it, whether there is
//! a place for it, and the limits of its body.

use std::net::{IpAddr, SocketAddr};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use http::header::CONNECTION;
use http::{HeaderValue, Request, Response, StatusCode, Version};
use http_body::{Body, Frame, SizeHint};
use http_body_util::{Either, Full};
use hyper::body::Incoming;
use pin_project_lite::pin_project;

use super::body::{BodyControl, BodyError, BodyLimits, Budget, Meter, RequestBody};
use super::places::{Activity, InProgress};
use super::{Options, all_taken};
use crate::hosts::{HostRule, Refusal};
use crate::problem::Problem;
use crate::proxies::Proxies;

/// The connection that a request came on; among its extensions.
#[derive(Clone, Copy, Debug)]
pub struct Connection {
    /// Who opened it: the client, or a proxy.
    pub peer: SocketAddr,
    /// The address at which it arrived.
    pub own: IpAddr,
    pub is_tls: bool,
}

/// The client that sent a request, as far as proxies are trusted; among its extensions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClientAddress(pub IpAddr);

/// The rules of one listener.
pub(super) struct Front {
    section: &'static str,
    hosts: HostRule,
    proxies: Proxies,
    probes: &'static [&'static str],
    limits: BodyLimits,
    budget: Arc<Budget>,
}

/// A response: the service's own, or a refusal.
type Answer<B> = Response<Tracked<Either<Full<Bytes>, B>>>;

impl Front {
    pub(super) fn new(options: &Options) -> Front {
        Front {
            section: options.section,
            hosts: options.hosts.clone(),
            proxies: options.proxies.clone(),
            probes: options.probes,
            limits: options.body,
            budget: Budget::new(options.body.held_max),
        }
    }

    /// Lets the service answer a request that may pass.
    pub(super) fn pass<S, F, B>(
        self: Arc<Front>,
        request: Request<Incoming>,
        connection: Connection,
        activity: Arc<Activity>,
        is_reserve: bool,
        service: S,
    ) -> impl Future<Output = Answer<B>> + Send + 'static
    where
        S: Fn(Request<RequestBody>) -> F + Send + 'static,
        F: Future<Output = Response<B>> + Send + 'static,
        B: Body<Data = Bytes> + Send + 'static,
    {
        let in_progress = activity.begin(!request.body().is_end_stream());
        async move {
            let version = request.version();
            let refused = self.refuse(&request, connection, is_reserve);
            let (response, is_last) = match refused {
                Some(problem) => (problem.into_http().map(Either::Left), true),
                None => self.serve(request, connection, &in_progress, service).await,
            };
            let is_upgraded = response.status() == StatusCode::SWITCHING_PROTOCOLS;
            let mut response = response.map(|inner| Tracked {
                inner,
                in_progress: Some(in_progress),
            });
            if (is_last || is_reserve) && version < Version::HTTP_2 {
                response
                    .headers_mut()
                    .insert(CONNECTION, HeaderValue::from_static("close"));
            }
            let body = response.body_mut();
            if is_upgraded {
                // The connection goes on as something else, and is in use until it closes.
                std::mem::forget(body.in_progress.take());
            } else if let Some(in_progress) = &body.in_progress {
                in_progress.wait().set(true);
            }
            response
        }
    }

    /// Returns the answer to a request that may not pass.
    fn refuse(
        &self,
        request: &Request<Incoming>,
        connection: Connection,
        is_reserve: bool,
    ) -> Option<Problem> {
        if is_reserve && !self.probes.contains(&request.uri().path()) {
            return Some(all_taken(self.section));
        }
        match self.hosts.judge(request, connection.own) {
            Ok(()) => None,
            Err(refusal) => Some(problem(&refusal)),
        }
    }

    /// Returns the response and whether the connection is to be closed after it.
    async fn serve<S, F, B>(
        &self,
        mut request: Request<Incoming>,
        connection: Connection,
        in_progress: &InProgress,
        service: S,
    ) -> (Response<Either<Full<Bytes>, B>>, bool)
    where
        S: Fn(Request<RequestBody>) -> F,
        F: Future<Output = Response<B>>,
    {
        let client = self.proxies.client(connection.peer.ip(), request.headers());
        // Where no token is asked for, nobody is a stranger.
        let meter = Meter::new(&self.budget, self.hosts.asks_token, in_progress.wait().clone());
        let extensions = request.extensions_mut();
        extensions.insert(connection);
        extensions.insert(ClientAddress(client));
        extensions.insert(BodyControl(Arc::clone(&meter)));
        let limits = self.limits;
        let request = request.map(|body| RequestBody::new(body, Arc::clone(&meter), limits));
        let response = service(request).await;
        let failure = meter.failure();
        meter.settle();
        if response.status() == StatusCode::SWITCHING_PROTOCOLS && meter.awaits_hello() {
            in_progress.wait().set(true);
        }
        match failure {
            Some(BodyError::Slow) => {
                let detail = "the body did not come in time";
                let problem = Problem::new(StatusCode::REQUEST_TIMEOUT, detail).kind("body-slow");
                (problem.into_http().map(Either::Left), true)
            }
            Some(BodyError::Full) => {
                let detail = format!(
                    "the bodies of requests in progress take all the memory that `{}.bodies_max` allows; try again \
                     later",
                    self.section
                );
                let problem = Problem::new(StatusCode::SERVICE_UNAVAILABLE, detail);
                let problem = problem.kind("bodies-full").retry_after(1);
                (problem.into_http().map(Either::Left), true)
            }
            Some(BodyError::Broken) | None => (response.map(Either::Right), false),
        }
    }
}

fn problem(refusal: &Refusal) -> Problem {
    match refusal {
        Refusal::Misdirected { .. } => {
            let detail = format!("{refusal}; use localhost or its address, or list the name in `http.hosts`");
            Problem::new(StatusCode::MISDIRECTED_REQUEST, detail).kind("misdirected")
        }
        Refusal::ForeignPage => Problem::new(StatusCode::FORBIDDEN, refusal.to_string()).kind("foreign-page"),
    }
}

pin_project! {
    /// A body that counts its request as in progress until it ends, and as one that waits for its client from each piece
    /// until the next is asked for.
    pub(super) struct Tracked<B> {
        #[pin]
        inner: B,
        in_progress: Option<InProgress>,
    }
}

impl<B: Body> Body for Tracked<B> {
    type Data = B::Data;
    type Error = B::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<B::Data>, B::Error>>> {
        let body = self.project();
        let polled = body.inner.poll_frame(context);
        if let Some(in_progress) = body.in_progress {
            in_progress.wait().set(polled.is_ready());
        }
        polled
    }

    fn is_end_stream(&self) -> bool {
        self.inner.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.inner.size_hint()
    }
}
