//! The JSON types that `nagaya-deliver` serves, for the OpenAPI document. The fuzzer checks its responses
//! against them.

#![allow(dead_code, reason = "only their schemas are used")]

use serde::Deserialize;
use utoipa::ToSchema;

/// A page of deliveries.
#[derive(ToSchema)]
pub(crate) struct Deliveries {
    deliveries: Vec<DeliveryLine>,
    /// Where to go on; the last page has none.
    #[schema(nullable = false)]
    next_cursor: Option<String>,
}

/// One event on its way to one target.
#[derive(ToSchema)]
pub(crate) struct DeliveryLine {
    #[schema(pattern = "^[1-9][0-9]*$")]
    id: String,
    #[schema(pattern = "^[1-9][0-9]*$")]
    job: String,
    queue: String,
    tenant: String,
    /// The kind of the event.
    event: String,
    /// The event's position in the log.
    #[schema(pattern = "^[1-9][0-9]*$")]
    seq: String,
    url: String,
    state: DeliveryState,
    #[schema(format = "date-time")]
    created_at: String,
    tries: Vec<Try>,
    /// While pending.
    #[schema(nullable = false, format = "date-time")]
    next_try_at: Option<String>,
}

#[derive(Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum DeliveryState {
    /// There will be another try.
    Pending,
    Delivered,
    /// All tries are used up, or the target wants no more.
    GaveUp,
}

/// One try of a delivery.
#[derive(ToSchema)]
#[schema(as = DeliveryTry)]
pub(crate) struct Try {
    number: u32,
    #[schema(format = "date-time")]
    at: String,
    latency_ms: u64,
    /// The reply's status; left out when there was no reply.
    #[schema(nullable = false)]
    status: Option<u16>,
    #[schema(nullable = false)]
    error: Option<String>,
    /// The first bytes of the reply.
    reply: String,
}

/// Which deliveries are sent again: at least one of `id`, `job`, `queue`, `state` and `since`. Without `id`, `job`
/// and `state` it is those that were given up.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Replay {
    #[schema(pattern = "^[1-9][0-9]{0,17}$")]
    id: Option<String>,
    #[schema(pattern = "^[1-9][0-9]{0,18}$")]
    job: Option<String>,
    #[schema(min_length = 1, max_length = 128, pattern = "^(?!\\.+$)[A-Za-z0-9._:-]+$")]
    queue: Option<String>,
    state: Option<DeliveryState>,
    /// Made at this time or later.
    #[schema(format = "date-time")]
    since: Option<String>,
    #[schema(min_length = 1, max_length = 128, pattern = "^(?!\\.+$)[A-Za-z0-9._:-]+$")]
    tenant: Option<String>,
}

#[derive(ToSchema)]
pub(crate) struct Replayed {
    replayed: u64,
    /// There are more than one call replays: call again.
    more: bool,
}

/// Secrets as Standard Webhooks writes them: `whsec_` and base64.
#[derive(ToSchema)]
pub(crate) struct Secrets {
    secrets: Vec<String>,
}

/// The route to try: `mail` or `chat`.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct RouteTest {
    route: String,
}

#[derive(ToSchema)]
pub(crate) struct RouteTested {
    sent: bool,
}
