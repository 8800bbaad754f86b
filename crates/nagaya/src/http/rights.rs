//! Every route with the right that it needs, as data.
//!
//! The listener asks this table before a handler runs: a route that is not in it is answered 500, so a route
//! without a right cannot exist. The jobs' own routes come from their table, which their router is built from.

use axum::http::Method;
use nagaya_jobs_api::Permission;

/// What every caller is answered on every route and page that is not the jobs'. A test walks all of them.
pub const RIGHTS: &str = include_str!("rights.txt");

/// What a request needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Needs {
    /// Nothing: it is open to everybody, whatever the settings.
    Nothing,
    /// Any token, whatever it allows.
    Token,
    /// The scope `metrics` or `read`.
    Metrics,
    Read,
    Enqueue,
    Work,
    Admin,
    /// A session of the console, or nothing in a server that asks for no token. What a page shows and does is
    /// asked of the API with the token of the session.
    Session,
    /// A secret that the handler checks by itself.
    OwnSecret,
    /// The scope that the message of a gRPC call needs, which its handler checks.
    OfMessage,
}

/// One route.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Right {
    pub method: &'static str,
    /// As the router writes it, with names in braces for parts of the path.
    pub path: &'static str,
    pub needs: Needs,
}

const fn right(method: &'static str, path: &'static str, needs: Needs) -> Right {
    Right { method, path, needs }
}

/// The routes that are not the jobs'.
const OWN: &[Right] = &[
    right("GET", "/healthz", Needs::Nothing),
    right("GET", "/readyz", Needs::Nothing),
    right("GET", "/metrics", Needs::Metrics),
    right("GET", "/version", Needs::Read),
    right("GET", "/v1/house", Needs::Read),
    right("GET", "/v1/house/history", Needs::Read),
    right("GET", "/v1/room", Needs::Read),
    right("GET", "/v1/room/tags", Needs::Read),
    right("GET", "/v1/room/tags/{tag}", Needs::Read),
    right("DELETE", "/v1/room/tags/{tag}", Needs::Admin),
    right("POST", "/v1/room/tags/{tag}/warm", Needs::Admin),
    right("POST", "/v1/room/tags/{tag}/evict", Needs::Admin),
    right("GET", "/v1/room/tags/{tag}/export", Needs::Read),
    right("GET", "/v1/fanout", Needs::Read),
    right("GET", "/v1/fanout/requests", Needs::Read),
    right("GET", "/v1/fanout/requests/{id}", Needs::Read),
    right("GET", "/v1/ids", Needs::Read),
    right("GET", "/v1/ids/ranges", Needs::Read),
    right("GET", "/v1/ids/numbers", Needs::Read),
    right("GET", "/v1/ids/decode/{id}", Needs::Read),
    right("GET", "/id", Needs::Read),
    right("GET", "/ids", Needs::Read),
    right("GET", "/stats", Needs::Read),
    right("POST", "/nagaya.ids.v1.Generator/{method}", Needs::Read),
    right("POST", "/nagaya.ids.v1.Stats/{method}", Needs::Read),
    right("POST", "/katsubushi.Generator/{method}", Needs::Read),
    right("POST", "/katsubushi.Stats/{method}", Needs::Read),
    right("GET", "/v1/fleet", Needs::Read),
    right("GET", "/v1/fleet/plan", Needs::Read),
    right("GET", "/v1/fleet/events", Needs::Read),
    right("POST", "/v1/fleet/relocate", Needs::Admin),
    right("POST", "/v1/fleet/drain", Needs::Admin),
    right("POST", "/v1/fleet/ask", Needs::Admin),
    right("POST", "/v1/fleet/confirm", Needs::Admin),
    right("POST", nagaya_fleet_api::WEBHOOK_PATH, Needs::OwnSecret),
    right("GET", "/openapi.json", Needs::Nothing),
    right("POST", "/nagaya.jobs.v1.Jobs/{method}", Needs::OfMessage),
];

/// Prefixes of services that may be switched off; what answers in their place only says so.
const SWITCHED_OFF: &[&str] = &[
    "/v1/jobs",
    "/v1/queues",
    "/v1/deliveries",
    "/v1/events",
    "/v1/tokens",
    "/v1/fanout",
    "/v1/ids",
    "/v1/fleet",
];

/// Returns all routes.
pub fn rights() -> Vec<Right> {
    let jobs = nagaya_jobs_api::rights()
        .into_iter()
        .map(|(method, path, permission)| {
            let needs = match permission {
                Permission::Any => Needs::Token,
                Permission::Enqueue => Needs::Enqueue,
                Permission::Work => Needs::Work,
                Permission::Read => Needs::Read,
                Permission::Metrics => Needs::Metrics,
                Permission::Admin => Needs::Admin,
            };
            right(method, path, needs)
        });
    let pages = nagaya_console::PATHS.iter().flat_map(|(path, methods)| {
        let needs = match *path {
            "/sign-in" | "/assets/{name}" => Needs::Nothing,
            _ => Needs::Session,
        };
        methods.iter().map(move |method| right(method, path, needs))
    });
    OWN.iter().copied().chain(jobs).chain(pages).collect()
}

/// The table, made once.
pub(crate) struct Rights(Vec<Right>);

impl Default for Rights {
    fn default() -> Rights {
        Rights(rights())
    }
}

impl Rights {
    /// Returns what a request for a route needs; `None` if the route has no entry. A method that the route does
    /// not take needs what any change needs, so that only administrators learn which it takes.
    pub(super) fn needs(&self, method: &Method, path: &str) -> Option<Needs> {
        let method = if method == Method::HEAD {
            "GET"
        } else {
            method.as_str()
        };
        let mut of_path = self.0.iter().filter(|right| right.path == path).peekable();
        if of_path.peek().is_none() && !is_switched_off(path) {
            return None;
        }
        let found = of_path.find(|right| right.method == method);
        Some(match found {
            Some(right) => right.needs,
            None if method == "GET" => Needs::Read,
            None => Needs::Admin,
        })
    }
}

fn is_switched_off(path: &str) -> bool {
    let prefix = path.strip_suffix("/{*rest}").unwrap_or(path);
    SWITCHED_OFF.contains(&prefix)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn each_route_is_listed_once() {
        let all = rights();
        let distinct: BTreeSet<_> = all.iter().map(|right| (right.path, right.method)).collect();
        assert_eq!(distinct.len(), all.len());
    }

    #[test]
    fn reading_needs_read_and_changing_needs_more() {
        for right in rights() {
            let is_enough = match right.needs {
                Needs::Read | Needs::Metrics => {
                    right.method == "GET"
                        || right.path.contains('.')
                        || right.path.starts_with("/v1/subscriptions")
                        // It changes nothing; the list of jobs is too long for a path.
                        || right.path == "/v1/jobs/wait"
                }
                Needs::Nothing => right.method == "GET" || right.path == "/sign-in",
                _ => true,
            };
            assert!(is_enough, "{right:?}");
        }
    }

    #[test]
    fn a_route_without_an_entry_has_no_answer() {
        let rights = Rights::default();
        assert_eq!(rights.needs(&Method::GET, "/metrics"), Some(Needs::Metrics));
        assert_eq!(rights.needs(&Method::HEAD, "/metrics"), Some(Needs::Metrics));
        assert_eq!(rights.needs(&Method::POST, "/metrics"), Some(Needs::Admin));
        assert_eq!(rights.needs(&Method::GET, "/v1/fleet/{*rest}"), Some(Needs::Read));
        assert_eq!(rights.needs(&Method::GET, "/v1/forgotten"), None);
    }
}
