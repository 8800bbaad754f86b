//! Every route: path, permission, request and response.

use std::borrow::Cow;

use axum::routing::{MethodRouter, delete, get, patch, post, put};
use utoipa::ToSchema;
use utoipa::openapi::{RefOr, Schema};

use super::{events, jobs, latency, leases, many, outgoing, queues, tenants, version, work, ws};
use crate::api::Api;
use crate::auth::Permission;
use crate::problem::ProblemKind;
use crate::wire::{change, event, job, lease, new_job, queue, schedule, tenant, wait, work as work_form};

/// One route.
pub(crate) struct Route {
    pub(crate) method: &'static str,
    pub(crate) path: &'static str,
    /// The operation's name in the OpenAPI document.
    pub(crate) id: &'static str,
    pub(crate) summary: &'static str,
    pub(crate) permission: Permission,
    pub(crate) query: &'static [Param],
    pub(crate) body: Option<Body>,
    pub(crate) answer: Answer,
    /// Problems besides those that every route may return.
    pub(crate) problems: &'static [ProblemKind],
    /// `None` for routes that `nagaya-deliver` serves: they are only part of the document.
    pub(crate) mount: Option<fn() -> MethodRouter<Api>>,
}

impl Route {
    /// Returns the method as HTTP writes it.
    pub(crate) fn verb(&self) -> &'static str {
        match self.method {
            "get" => "GET",
            "patch" => "PATCH",
            "put" => "PUT",
            "post" => "POST",
            "delete" => "DELETE",
            other => unreachable!("no route takes {other}"),
        }
    }
}

/// A parameter of the query.
pub(crate) struct Param {
    pub(crate) name: &'static str,
    pub(crate) about: &'static str,
    /// The parameter's schema, as JSON.
    pub(crate) schema: &'static str,
}

pub(crate) struct Body {
    pub(crate) schema: Used,
    pub(crate) required: bool,
}

pub(crate) enum Answer {
    Document(u16, Used),
    Nothing,
    /// A stream of server-sent events.
    Events,
    /// A switch to another protocol.
    Switch,
}

/// A schema that a route uses.
#[derive(Clone, Copy)]
pub(crate) struct Used {
    pub(crate) name: fn() -> Cow<'static, str>,
    pub(crate) schema: fn() -> RefOr<Schema>,
    pub(crate) nested: fn(&mut Vec<(String, RefOr<Schema>)>),
}

pub(crate) fn used<T: ToSchema>() -> Used {
    Used {
        name: T::name,
        schema: T::schema,
        nested: T::schemas,
    }
}

pub(super) fn body<T: ToSchema>() -> Option<Body> {
    Some(Body {
        schema: used::<T>(),
        required: true,
    })
}

fn optional_body<T: ToSchema>() -> Option<Body> {
    Some(Body {
        schema: used::<T>(),
        required: false,
    })
}

pub(super) fn document<T: ToSchema>() -> Answer {
    Answer::Document(200, used::<T>())
}

const NAME: &str =
    r#"{"type":"string","minLength":1,"maxLength":128,"pattern":"^(?!\\.+$)[A-Za-z0-9._:-]+$"}"#;
const POSITION: &str = r#"{"type":"string","pattern":"^(0|[1-9][0-9]{0,17})$"}"#;
pub(super) const TIME: &str = r#"{"type":"string","format":"date-time"}"#;
pub(super) const LIMIT: &str = r#"{"type":"integer","minimum":1,"maximum":1000}"#;
pub(super) const TEXT: &str = r#"{"type":"string"}"#;

pub(super) const TENANT: Param = Param {
    name: "tenant",
    about: "Only for callers that speak for several tenants: this one.",
    schema: NAME,
};
pub(super) const QUEUE: Param = Param {
    name: "queue",
    about: "Only of this queue.",
    schema: NAME,
};
const AFTER: Param = Param {
    name: "after",
    about: "Only what comes after this position; the header Last-Event-ID goes first.",
    schema: POSITION,
};

/// All routes, in the order in which they are documented.
pub(crate) fn table() -> Vec<Route> {
    let mut routes = job_routes();
    routes.extend(work_routes());
    routes.extend(queue_routes());
    routes.extend(event_routes());
    routes.extend(admin_routes());
    routes.extend(outgoing::routes());
    routes
}

fn job_routes() -> Vec<Route> {
    vec![
        Route {
            method: "post",
            path: "/v1/jobs",
            id: "register_job",
            summary: "Registers a job.",
            permission: Permission::Enqueue,
            query: &[],
            body: body::<new_job::NewJob<'static>>(),
            answer: Answer::Document(201, used::<new_job::Registered>()),
            problems: &[
                ProblemKind::DependencyUnusable,
                ProblemKind::KeyReused,
                ProblemKind::QueueFull,
            ],
            mount: Some(|| post(jobs::register)),
        },
        Route {
            method: "get",
            path: "/v1/jobs",
            id: "list_jobs",
            summary: "Lists jobs, newest first.",
            permission: Permission::Read,
            query: &[
                QUEUE,
                Param {
                    name: "state",
                    about: "Only in these states, separated by commas.",
                    schema: r#"{"type":"string","pattern":"^(scheduled|waiting|running|succeeded|failed|cancelled)(,(scheduled|waiting|running|succeeded|failed|cancelled))*$"}"#,
                },
                Param {
                    name: "kind",
                    about: "Only of this kind.",
                    schema: TEXT,
                },
                Param {
                    name: "tag",
                    about: "Only with this tag.",
                    schema: TEXT,
                },
                Param {
                    name: "search",
                    about: "Only those whose id begins with this, or whose kind, tags or error have it in them.",
                    schema: TEXT,
                },
                Param {
                    name: "since",
                    about: "Registered at or after this.",
                    schema: TIME,
                },
                Param {
                    name: "before",
                    about: "Registered before this.",
                    schema: TIME,
                },
                Param {
                    name: "cursor",
                    about: "Goes on where a page ended.",
                    schema: r#"{"type":"string","pattern":"^[A-Za-z0-9_-]{12}$"}"#,
                },
                Param {
                    name: "limit",
                    about: "Most jobs of the page; 100 when left out.",
                    schema: LIMIT,
                },
                TENANT,
            ],
            body: None,
            answer: document::<job::JobPage<'static>>(),
            problems: &[],
            mount: Some(|| get(jobs::list)),
        },
        Route {
            method: "post",
            path: "/v1/jobs/batch",
            id: "register_jobs",
            summary: "Registers jobs together; each is judged by itself.",
            permission: Permission::Enqueue,
            query: &[],
            body: body::<new_job::NewJobs<'static>>(),
            answer: Answer::Document(201, used::<new_job::RegisteredJobs<'static>>()),
            problems: &[
                ProblemKind::DependencyUnusable,
                ProblemKind::KeyReused,
                ProblemKind::QueueFull,
            ],
            mount: Some(|| post(jobs::register_many)),
        },
        Route {
            method: "post",
            path: "/v1/jobs/retry",
            id: "retry_jobs",
            summary: "Lets ended jobs that a filter means run again, a page at a time.",
            permission: Permission::Enqueue,
            query: &[],
            body: body::<change::ManyFilter>(),
            answer: document::<change::ManyChanged>(),
            problems: &[],
            mount: Some(|| post(many::retry)),
        },
        Route {
            method: "post",
            path: "/v1/jobs/cancel",
            id: "cancel_jobs",
            summary: "Cancels jobs that a filter means, a page at a time.",
            permission: Permission::Enqueue,
            query: &[],
            body: body::<change::ManyFilter>(),
            answer: document::<change::ManyChanged>(),
            problems: &[],
            mount: Some(|| post(many::cancel)),
        },
        Route {
            method: "post",
            path: "/v1/jobs/edit",
            id: "edit_jobs",
            summary: "Changes jobs that a filter means and that have not started, a page at a time; or moves them to another queue.",
            permission: Permission::Enqueue,
            query: &[],
            body: body::<change::ManyFilter>(),
            answer: document::<change::ManyChanged>(),
            problems: &[],
            mount: Some(|| post(many::edit)),
        },
        Route {
            method: "post",
            path: "/v1/jobs/delete",
            id: "delete_jobs",
            summary: "Removes ended jobs that a filter means, a page at a time.",
            permission: Permission::Enqueue,
            query: &[],
            body: body::<change::ManyFilter>(),
            answer: document::<change::ManyChanged>(),
            problems: &[],
            mount: Some(|| post(many::delete)),
        },
        Route {
            method: "post",
            path: "/v1/jobs/wait",
            id: "wait_for_jobs",
            summary: "Waits until one or all of several jobs have ended.",
            permission: Permission::Read,
            query: &[],
            body: body::<wait::Wait>(),
            answer: document::<wait::WaitedJobs<'static>>(),
            problems: &[],
            mount: Some(|| post(jobs::wait)),
        },
        Route {
            method: "get",
            path: "/v1/jobs/{id}",
            id: "read_job",
            summary: "Reads a job, and why it is not running; waits for its end when asked to.",
            permission: Permission::Read,
            query: &[Param {
                name: "wait",
                about: "Waits so long for the job to end: 30s, 500ms, 1m.",
                schema: r#"{"type":"string","pattern":"^[0-9]{1,6}(\\.[0-9]{1,3})?(ms|s|m)?$"}"#,
            }],
            body: None,
            answer: document::<job::Job<'static>>(),
            problems: &[ProblemKind::NotFound],
            mount: Some(|| get(jobs::read)),
        },
        Route {
            method: "patch",
            path: "/v1/jobs/{id}",
            id: "edit_job",
            summary: "Changes a job that has not started: a `run_at` of now lets it run now, a `queue` moves it.",
            permission: Permission::Enqueue,
            query: &[],
            body: body::<change::EditJob<'static>>(),
            answer: Answer::Nothing,
            problems: &[
                ProblemKind::NotFound,
                ProblemKind::WrongState,
                ProblemKind::QueueFull,
            ],
            mount: Some(|| patch(jobs::edit)),
        },
        Route {
            method: "delete",
            path: "/v1/jobs/{id}",
            id: "delete_job",
            summary: "Removes a job that has ended, before its retention is over.",
            permission: Permission::Enqueue,
            query: &[],
            body: None,
            answer: Answer::Nothing,
            problems: &[ProblemKind::NotFound, ProblemKind::WrongState],
            mount: Some(|| delete(jobs::delete)),
        },
        Route {
            method: "get",
            path: "/v1/jobs/{id}/log",
            id: "read_job_log",
            summary: "Reads a job's log lines.",
            permission: Permission::Read,
            query: &[
                Param {
                    name: "after",
                    about: "Only lines with numbers above this.",
                    schema: r#"{"type":"integer","minimum":0,"maximum":9223372036854775807}"#,
                },
                Param {
                    name: "limit",
                    about: "Most lines; 1000 when left out.",
                    schema: LIMIT,
                },
            ],
            body: None,
            answer: document::<job::Lines<'static>>(),
            problems: &[ProblemKind::NotFound],
            mount: Some(|| get(jobs::log_lines)),
        },
        Route {
            method: "post",
            path: "/v1/jobs/{id}/cancel",
            id: "cancel_job",
            summary: "Cancels a job that has not ended. A running one's token is worth nothing from then on.",
            permission: Permission::Enqueue,
            query: &[],
            body: optional_body::<job::Cancel>(),
            answer: document::<job::Changed>(),
            problems: &[ProblemKind::NotFound, ProblemKind::WrongState],
            mount: Some(|| post(jobs::cancel)),
        },
        Route {
            method: "post",
            path: "/v1/jobs/{id}/retry",
            id: "retry_job",
            summary: "Lets a job that has ended run again, with all its attempts.",
            permission: Permission::Enqueue,
            query: &[],
            body: None,
            answer: document::<job::Changed>(),
            problems: &[ProblemKind::NotFound, ProblemKind::WrongState],
            mount: Some(|| post(jobs::retry)),
        },
    ]
}

fn work_routes() -> Vec<Route> {
    vec![
        Route {
            method: "post",
            path: "/v1/queues/{queue}/claim",
            id: "claim_jobs",
            summary: "Gives jobs of a queue to a worker; waits for some when asked to. Tells of lost ones that it holds.",
            permission: Permission::Work,
            query: &[],
            body: body::<work_form::Claim<'static>>(),
            answer: document::<work_form::ClaimedJobs<'static>>(),
            problems: &[],
            mount: Some(|| post(work::claim)),
        },
        Route {
            method: "post",
            path: "/v1/claim",
            id: "claim_jobs_of_any",
            summary: "Gives jobs of several queues to a worker, asked in order.",
            permission: Permission::Work,
            query: &[],
            body: body::<work_form::ClaimAny<'static>>(),
            answer: document::<work_form::ClaimedJobs<'static>>(),
            problems: &[],
            mount: Some(|| post(work::claim_any)),
        },
        Route {
            method: "post",
            path: "/v1/jobs/{id}/extend",
            id: "extend_lease",
            summary: "Makes a lease last longer.",
            permission: Permission::Work,
            query: &[],
            body: body::<lease::Extend<'static>>(),
            answer: document::<lease::Extended>(),
            problems: &[ProblemKind::LeaseLost],
            mount: Some(|| post(leases::extend)),
        },
        Route {
            method: "post",
            path: "/v1/jobs/batch/extend",
            id: "extend_leases",
            summary: "Makes leases last longer; each is judged by itself.",
            permission: Permission::Work,
            query: &[],
            body: body::<lease::ExtendMany<'static>>(),
            answer: document::<lease::ExtendOutcomes<'static>>(),
            problems: &[],
            mount: Some(|| post(leases::extend_many)),
        },
        Route {
            method: "post",
            path: "/v1/jobs/{id}/release",
            id: "release_job",
            summary: "Gives a job back, now or for later; the attempt does not count.",
            permission: Permission::Work,
            query: &[],
            body: body::<lease::Release<'static>>(),
            answer: document::<lease::ReleasedJob>(),
            problems: &[ProblemKind::LeaseLost],
            mount: Some(|| post(leases::release)),
        },
        Route {
            method: "post",
            path: "/v1/jobs/batch/release",
            id: "release_jobs",
            summary: "Gives jobs back; each is judged by itself.",
            permission: Permission::Work,
            query: &[],
            body: body::<lease::ReleaseMany<'static>>(),
            answer: document::<lease::ReleaseOutcomes<'static>>(),
            problems: &[],
            mount: Some(|| post(leases::release_many)),
        },
        Route {
            method: "post",
            path: "/v1/jobs/{id}/progress",
            id: "report_progress",
            summary: "Notes how far the worker has come.",
            permission: Permission::Work,
            query: &[],
            body: body::<work_form::Progress<'static>>(),
            answer: Answer::Nothing,
            problems: &[ProblemKind::LeaseLost],
            mount: Some(|| post(work::progress)),
        },
        Route {
            method: "post",
            path: "/v1/jobs/{id}/log",
            id: "add_log_lines",
            summary: "Adds lines to the job's log.",
            permission: Permission::Work,
            query: &[],
            body: body::<work_form::Log<'static>>(),
            answer: Answer::Nothing,
            problems: &[ProblemKind::LeaseLost],
            mount: Some(|| post(work::log)),
        },
        Route {
            method: "post",
            path: "/v1/jobs/{id}/complete",
            id: "complete_job",
            summary: "Ends a job as succeeded. The same report again is taken as a repeat.",
            permission: Permission::Work,
            query: &[],
            body: body::<work_form::Complete<'static>>(),
            answer: document::<work_form::CompletedJob>(),
            problems: &[ProblemKind::LeaseLost],
            mount: Some(|| post(work::complete)),
        },
        Route {
            method: "post",
            path: "/v1/jobs/{id}/fail",
            id: "fail_job",
            summary: "Ends an attempt as failed, and the job when it was the last.",
            permission: Permission::Work,
            query: &[],
            body: body::<work_form::Fail<'static>>(),
            answer: document::<work_form::FailedJob>(),
            problems: &[ProblemKind::LeaseLost],
            mount: Some(|| post(work::fail)),
        },
        Route {
            method: "post",
            path: "/v1/jobs/batch/complete",
            id: "complete_jobs",
            summary: "Ends jobs as succeeded; each report is judged by itself.",
            permission: Permission::Work,
            query: &[],
            body: body::<work_form::CompleteMany<'static>>(),
            answer: document::<work_form::ReportOutcomes<'static>>(),
            problems: &[],
            mount: Some(|| post(work::complete_many)),
        },
        Route {
            method: "post",
            path: "/v1/jobs/batch/fail",
            id: "fail_jobs",
            summary: "Ends attempts as failed; each report is judged by itself.",
            permission: Permission::Work,
            query: &[],
            body: body::<work_form::FailMany<'static>>(),
            answer: document::<work_form::ReportOutcomes<'static>>(),
            problems: &[],
            mount: Some(|| post(work::fail_many)),
        },
    ]
}

fn queue_routes() -> Vec<Route> {
    vec![
        Route {
            method: "get",
            path: "/v1/queues",
            id: "list_queues",
            summary: "Lists queues with their settings and what can be counted in them.",
            permission: Permission::Read,
            query: &[],
            body: None,
            answer: document::<queue::Queues>(),
            problems: &[],
            mount: Some(|| get(queues::queues)),
        },
        Route {
            method: "get",
            path: "/v1/queues/{queue}",
            id: "read_queue",
            summary: "Reads one queue.",
            permission: Permission::Read,
            query: &[],
            body: None,
            answer: document::<queue::Queue>(),
            problems: &[ProblemKind::NotFound],
            mount: Some(|| get(queues::queue)),
        },
        Route {
            method: "get",
            path: "/v1/queues/{queue}/latency",
            id: "read_queue_latency",
            summary: "Tells how long the newest ended jobs of a queue waited and took.",
            permission: Permission::Read,
            query: &[],
            body: None,
            answer: document::<queue::Latency>(),
            problems: &[],
            mount: Some(|| get(latency::latency)),
        },
        Route {
            method: "put",
            path: "/v1/queues/{queue}",
            id: "put_queue",
            summary: "Makes a queue or replaces its settings.",
            permission: Permission::Admin,
            query: &[],
            body: body::<queue::Settings>(),
            answer: document::<queue::Queue>(),
            problems: &[ProblemKind::NotFound],
            mount: Some(|| put(queues::put_queue)),
        },
        Route {
            method: "patch",
            path: "/v1/queues/{queue}",
            id: "patch_queue",
            summary: "Changes some settings of a queue; what is left out stays.",
            permission: Permission::Admin,
            query: &[],
            body: body::<queue::Settings>(),
            answer: document::<queue::Queue>(),
            problems: &[],
            mount: Some(|| patch(queues::patch_queue)),
        },
        Route {
            method: "delete",
            path: "/v1/queues/{queue}",
            id: "delete_queue",
            summary: "Deletes a queue with its settings, its counters and its ended jobs.",
            permission: Permission::Admin,
            query: &[],
            body: None,
            answer: Answer::Nothing,
            problems: &[ProblemKind::NotFound, ProblemKind::NotEmpty],
            mount: Some(|| delete(queues::delete_queue)),
        },
        Route {
            method: "post",
            path: "/v1/queues/{queue}/pause",
            id: "pause_queue",
            summary: "Gives out no more jobs of a queue; running ones go on.",
            permission: Permission::Admin,
            query: &[],
            body: None,
            answer: Answer::Nothing,
            problems: &[],
            mount: Some(|| post(queues::pause)),
        },
        Route {
            method: "post",
            path: "/v1/queues/{queue}/resume",
            id: "resume_queue",
            summary: "Gives out jobs of a queue again.",
            permission: Permission::Admin,
            query: &[],
            body: None,
            answer: Answer::Nothing,
            problems: &[],
            mount: Some(|| post(queues::resume)),
        },
        Route {
            method: "get",
            path: "/v1/schedules",
            id: "list_schedules",
            summary: "Lists schedules.",
            permission: Permission::Read,
            query: &[TENANT],
            body: None,
            answer: document::<schedule::Schedules<'static>>(),
            problems: &[],
            mount: Some(|| get(queues::schedules)),
        },
        Route {
            method: "get",
            path: "/v1/schedules/{name}",
            id: "read_schedule",
            summary: "Reads one schedule.",
            permission: Permission::Read,
            query: &[TENANT],
            body: None,
            answer: document::<schedule::ScheduleLine<'static>>(),
            problems: &[ProblemKind::NotFound],
            mount: Some(|| get(queues::schedule)),
        },
        Route {
            method: "put",
            path: "/v1/schedules/{name}",
            id: "put_schedule",
            summary: "Makes or replaces a schedule.",
            permission: Permission::Enqueue,
            query: &[],
            body: body::<schedule::NewSchedule<'static>>(),
            answer: document::<schedule::ScheduleLine<'static>>(),
            problems: &[],
            mount: Some(|| put(queues::put_schedule)),
        },
        Route {
            method: "delete",
            path: "/v1/schedules/{name}",
            id: "delete_schedule",
            summary: "Removes a schedule; jobs that it made stay.",
            permission: Permission::Enqueue,
            query: &[TENANT],
            body: None,
            answer: Answer::Nothing,
            problems: &[ProblemKind::NotFound],
            mount: Some(|| delete(queues::delete_schedule)),
        },
        Route {
            method: "post",
            path: "/v1/schedules/{name}/run",
            id: "run_schedule",
            summary: "Registers a job of a schedule now; its next run stays.",
            permission: Permission::Enqueue,
            query: &[TENANT],
            body: None,
            answer: Answer::Document(201, used::<new_job::Registered>()),
            problems: &[
                ProblemKind::NotFound,
                ProblemKind::DependencyUnusable,
                ProblemKind::QueueFull,
            ],
            mount: Some(|| post(queues::run_schedule)),
        },
    ]
}

fn event_routes() -> Vec<Route> {
    vec![
        Route {
            method: "get",
            path: "/v1/jobs/{id}/events",
            id: "job_events",
            summary: "Streams a job's events, from its beginning to its end; 204 when the reader has seen the end. With an \
                      attempt's token in the header nagaya-lease the scope work is enough.",
            permission: Permission::Read,
            query: &[AFTER],
            body: None,
            answer: Answer::Events,
            problems: &[ProblemKind::NotFound, ProblemKind::LeaseLost],
            mount: Some(|| get(events::job_events)),
        },
        Route {
            method: "get",
            path: "/v1/events",
            id: "events",
            summary: "Streams events, from a position on or as they happen.",
            permission: Permission::Read,
            query: &[
                QUEUE,
                Param {
                    name: "kind",
                    about: "Only of these kinds, separated by commas.",
                    schema: r#"{"type":"string","pattern":"^(enqueued|started|progress|retrying|succeeded|failed|cancelled|lease_lost|released)(,(enqueued|started|progress|retrying|succeeded|failed|cancelled|lease_lost|released))*$"}"#,
                },
                AFTER,
                Param {
                    name: "subscription",
                    about: "Filter and position of a subscription.",
                    schema: NAME,
                },
                TENANT,
            ],
            body: None,
            answer: Answer::Events,
            problems: &[ProblemKind::NotFound],
            mount: Some(|| get(events::events)),
        },
        Route {
            method: "get",
            path: "/v1/ws",
            id: "websocket",
            summary: "Events over a WebSocket: hello, then events; acknowledgements move a subscription's cursor.",
            permission: Permission::Read,
            query: &[],
            body: None,
            answer: Answer::Switch,
            problems: &[],
            mount: Some(|| get(ws::open)),
        },
        Route {
            method: "get",
            path: "/v1/subscriptions",
            id: "list_subscriptions",
            summary: "Lists subscriptions.",
            permission: Permission::Read,
            query: &[],
            body: None,
            answer: document::<event::Subscriptions>(),
            problems: &[],
            mount: Some(|| get(events::subscriptions)),
        },
        Route {
            method: "put",
            path: "/v1/subscriptions/{name}",
            id: "put_subscription",
            summary: "Makes a subscription, or gives the one of that name a new filter; its cursor stays.",
            permission: Permission::Enqueue,
            query: &[],
            body: optional_body::<event::NewSubscription>(),
            answer: document::<event::SubscriptionLine>(),
            problems: &[],
            mount: Some(|| put(events::put_subscription)),
        },
        Route {
            method: "post",
            path: "/v1/subscriptions/{name}/ack",
            id: "ack_subscription",
            summary: "Moves a subscription's cursor ahead.",
            permission: Permission::Enqueue,
            query: &[],
            body: body::<event::Cursor>(),
            answer: document::<event::Cursor>(),
            problems: &[ProblemKind::NotFound],
            mount: Some(|| post(events::ack_subscription)),
        },
        Route {
            method: "delete",
            path: "/v1/subscriptions/{name}",
            id: "delete_subscription",
            summary: "Removes a subscription.",
            permission: Permission::Enqueue,
            query: &[],
            body: None,
            answer: Answer::Nothing,
            problems: &[ProblemKind::NotFound],
            mount: Some(|| delete(events::delete_subscription)),
        },
    ]
}

fn admin_routes() -> Vec<Route> {
    vec![
        Route {
            method: "get",
            path: "/v1/version",
            id: "read_version",
            summary: "Tells the server's version, whatever the token allows.",
            permission: Permission::Any,
            query: &[],
            body: None,
            answer: document::<version::Version>(),
            problems: &[],
            mount: Some(|| get(version::version)),
        },
        Route {
            method: "get",
            path: "/v1/whoami",
            id: "who_am_i",
            summary: "Tells whose the token is and what it allows.",
            permission: Permission::Read,
            query: &[],
            body: None,
            answer: document::<tenant::WhoAmI<'static>>(),
            problems: &[],
            mount: Some(|| get(tenants::who_am_i)),
        },
        Route {
            method: "get",
            path: "/v1/tokens",
            id: "list_tokens",
            summary: "Lists tokens, without their secrets.",
            permission: Permission::Admin,
            query: &[],
            body: None,
            answer: document::<tenant::Tokens<'static>>(),
            problems: &[],
            mount: Some(|| get(tenants::tokens)),
        },
        Route {
            method: "post",
            path: "/v1/tokens",
            id: "make_token",
            summary: "Makes a token; the answer is the only time that it is shown.",
            permission: Permission::Admin,
            query: &[],
            body: body::<tenant::NewToken>(),
            answer: Answer::Document(201, used::<tenant::MadeToken<'static>>()),
            problems: &[],
            mount: Some(|| post(tenants::make_token)),
        },
        Route {
            method: "delete",
            path: "/v1/tokens/{tenant}/{name}",
            id: "revoke_token",
            summary: "Revokes a token. Other servers may believe it for 5 seconds more.",
            permission: Permission::Admin,
            query: &[],
            body: None,
            answer: Answer::Nothing,
            problems: &[ProblemKind::NotFound],
            mount: Some(|| delete(tenants::revoke_token)),
        },
        Route {
            method: "get",
            path: "/v1/tenants",
            id: "list_tenants",
            summary: "Lists tenants.",
            permission: Permission::Admin,
            query: &[],
            body: None,
            answer: document::<tenant::Tenants>(),
            problems: &[],
            mount: Some(|| get(tenants::tenants)),
        },
        Route {
            method: "put",
            path: "/v1/tenants/{tenant}",
            id: "put_tenant",
            summary: "Makes a tenant or changes its weight.",
            permission: Permission::Admin,
            query: &[],
            body: body::<tenant::TenantSettings>(),
            answer: Answer::Nothing,
            problems: &[],
            mount: Some(|| put(tenants::put_tenant)),
        },
    ]
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn names_and_routes_are_unique() {
        let routes = table();
        let ids: BTreeSet<&str> = routes.iter().map(|route| route.id).collect();
        let paths: BTreeSet<_> = routes.iter().map(|route| (route.path, route.method)).collect();
        assert_eq!((ids.len(), paths.len()), (routes.len(), routes.len()));
        for param in routes.iter().flat_map(|route| route.query) {
            serde_json::from_str::<serde_json::Value>(param.schema).unwrap();
        }
    }

    #[test]
    fn the_router_takes_all_of_them() {
        let _ = super::super::router();
    }
}
