//! Which jobs a listing shows, and the form that says it.

use maud::{Markup, html};
use serde_json::{Value, json};

use super::model::Queue;
use crate::form::{Fields, with_query};
use crate::html::link_button;

/// The states of jobs, in the order of their lives.
const STATES: [&str; 6] = [
    "scheduled",
    "waiting",
    "running",
    "succeeded",
    "failed",
    "cancelled",
];

/// What a listing is narrowed to; empty fields narrow nothing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Filter {
    pub(super) queue: Option<String>,
    pub(super) state: Option<String>,
    pub(super) kind: Option<String>,
    pub(super) tag: Option<String>,
    pub(super) search: Option<String>,
}

impl Filter {
    pub(super) fn read(fields: &Fields) -> Filter {
        let get = |name| fields.get(name).map(str::to_owned);
        Filter {
            queue: get("queue"),
            state: get("state").filter(|state| STATES.contains(&state.as_str())),
            kind: get("kind"),
            tag: get("tag"),
            search: get("search"),
        }
    }

    fn pairs(&self) -> [(&'static str, Option<&str>); 5] {
        [
            ("queue", self.queue.as_deref()),
            ("state", self.state.as_deref()),
            ("kind", self.kind.as_deref()),
            ("tag", self.tag.as_deref()),
            ("search", self.search.as_deref()),
        ]
    }

    pub(super) fn is_empty(&self) -> bool {
        *self == Filter::default()
    }

    /// A path with this filter and perhaps a place to go on at.
    pub(super) fn path(&self, path: &str, cursor: Option<&str>) -> String {
        with_query(path, self.pairs().into_iter().chain([("cursor", cursor)]))
    }

    /// What the API is asked for.
    pub(super) fn api_path(&self, cursor: Option<&str>, limit: &str) -> String {
        let more = [("cursor", cursor), ("limit", Some(limit))];
        with_query("/v1/jobs", self.pairs().into_iter().chain(more))
    }

    /// The same for changing all of them.
    pub(super) fn body(&self, cursor: Option<&str>) -> Value {
        let mut body = json!({});
        for (name, value) in self.pairs() {
            match (name, value) {
                (_, None) => (),
                ("state", Some(state)) => body["states"] = json!([state]),
                (name, Some(value)) => body[name] = json!(value),
            }
        }
        if let Some(cursor) = cursor {
            body["cursor"] = json!(cursor);
        }
        body
    }

    /// Hidden fields that carry the filter through a question.
    pub(super) fn hidden(&self) -> Markup {
        html! {
            @for (name, value) in self.pairs() {
                @if let Some(value) = value { input type="hidden" name=(name) value=(value); }
            }
        }
    }

    /// In words, for a question.
    pub(super) fn words(&self) -> Markup {
        let named = self
            .pairs()
            .into_iter()
            .filter_map(|(name, value)| Some((name, value?)));
        html! {
            ul.words { @for (name, value) in named { li { (name) " " b { (value) } } } }
        }
    }

    /// The form. On a queue's own page the queue is fixed.
    pub(super) fn form(&self, path: &str, queues: &[Queue]) -> Markup {
        let fixed = if queues.is_empty() {
            self.queue.clone()
        } else {
            None
        };
        let narrows = *self
            != Filter {
                queue: fixed,
                ..Filter::default()
            };
        html! {
            form.filters method="get" action=(path) role="search" {
                div {
                    label for="search" { "Search" }
                    input #search type="search" name="search" value=[self.search.as_deref()]
                        placeholder="id, kind, tag, error";
                }
                @if !queues.is_empty() {
                    div {
                        label for="queue" { "Queue" }
                        select #queue name="queue" {
                            option value="" { "all" }
                            @for queue in queues {
                                option value=(queue.name) selected[self.queue.as_ref() == Some(&queue.name)] { (queue.name) }
                            }
                        }
                    }
                }
                div {
                    label for="state" { "State" }
                    select #state name="state" {
                        option value="" { "all" }
                        @for state in STATES {
                            option value=(state) selected[self.state.as_deref() == Some(state)] { (state) }
                        }
                    }
                }
                div { label for="kind" { "Kind" } input #kind name="kind" value=[self.kind.as_deref()]; }
                div { label for="tag" { "Tag" } input #tag name="tag" value=[self.tag.as_deref()]; }
                div.buttons {
                    button.primary type="submit" { "Show" }
                    @if narrows { (link_button(path, "All")) }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_filter_becomes_a_path_and_a_body() {
        let filter = Filter::read(&Fields::parse(b"queue=mail&state=failed&kind=&search=no+route"));
        assert_eq!(
            filter.api_path(None, "50"),
            "/v1/jobs?queue=mail&state=failed&search=no%20route&limit=50"
        );
        let body = json!({"queue": "mail", "states": ["failed"], "search": "no route", "cursor": "c"});
        assert_eq!(filter.body(Some("c")), body);
    }

    #[test]
    fn a_state_that_there_is_not_narrows_nothing() {
        assert!(Filter::read(&Fields::parse(b"state=lost")).is_empty());
    }
}
