//! The routes that `nagaya-deliver` serves, for the document only: deliveries, webhook secrets,
//! notifications.

use super::table::{LIMIT, Param, QUEUE, Route, TENANT, TEXT, TIME, body, document};
use crate::auth::Permission;
use crate::problem::ProblemKind;
use crate::wire::outgoing::{Deliveries, Replay, Replayed, RouteTest, RouteTested, Secrets};

const DELIVERY: &str = r#"{"type":"string","pattern":"^[1-9][0-9]{0,17}$"}"#;
const STATE: &str = r#"{"type":"string","enum":["pending","delivered","gave_up"]}"#;

/// Returns the routes; there is nothing to mount.
pub(super) fn routes() -> Vec<Route> {
    vec![
        Route {
            method: "get",
            path: "/v1/deliveries",
            id: "list_deliveries",
            summary: "Lists deliveries of webhooks with their tries, newest first.",
            permission: Permission::Read,
            query: &[
                Param {
                    name: "id",
                    about: "Only this delivery.",
                    schema: DELIVERY,
                },
                Param {
                    name: "job",
                    about: "Only of this job.",
                    schema: r#"{"type":"string","pattern":"^[1-9][0-9]{0,18}$"}"#,
                },
                QUEUE,
                Param {
                    name: "state",
                    about: "Only in this state.",
                    schema: STATE,
                },
                Param {
                    name: "since",
                    about: "Only those made at this time or later.",
                    schema: TIME,
                },
                TENANT,
                Param {
                    name: "cursor",
                    about: "Where to go on: `next_cursor` of the page before.",
                    schema: TEXT,
                },
                Param {
                    name: "limit",
                    about: "Most deliveries of a page; 100 when left out.",
                    schema: LIMIT,
                },
            ],
            body: None,
            answer: document::<Deliveries>(),
            problems: &[],
            mount: None,
        },
        Route {
            method: "post",
            path: "/v1/deliveries/replay",
            id: "replay_deliveries",
            summary: "Sends deliveries again, 10,000 at most; those that were given up unless it is said which.",
            permission: Permission::Enqueue,
            query: &[],
            body: body::<Replay>(),
            answer: document::<Replayed>(),
            problems: &[],
            mount: None,
        },
        Route {
            method: "get",
            path: "/v1/webhooks/secret",
            id: "webhook_secret",
            summary: "Shows the secrets that a tenant's webhooks are signed with, newest first.",
            permission: Permission::Enqueue,
            query: &[TENANT],
            body: None,
            answer: document::<Secrets>(),
            problems: &[],
            mount: None,
        },
        Route {
            method: "post",
            path: "/v1/webhooks/rotate",
            id: "rotate_webhook_secret",
            summary: "Makes a new secret; the one before goes on signing beside it.",
            permission: Permission::Admin,
            query: &[TENANT],
            body: None,
            answer: document::<Secrets>(),
            problems: &[],
            mount: None,
        },
        Route {
            method: "post",
            path: "/v1/notify/test",
            id: "test_route",
            summary: "Sends a test message by a route of the administrators' notices.",
            permission: Permission::Admin,
            query: &[],
            body: body::<RouteTest>(),
            answer: document::<RouteTested>(),
            problems: &[ProblemKind::NotFound, ProblemKind::NotSent],
            mount: None,
        },
    ]
}
