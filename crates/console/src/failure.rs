//! What a page shows when it cannot show what was asked for.

use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use maud::{Markup, html};
use serde::Deserialize;

use crate::api::Answer;
use crate::html::link_button;

/// Why there is no page: the API's words, mostly. [`crate::admit`] makes a page of it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{status}: {detail}")]
pub(crate) struct Failure {
    pub(crate) status: StatusCode,
    pub(crate) detail: String,
}

/// The part of a problem document that people read.
#[derive(Deserialize)]
struct Problem {
    detail: Option<String>,
    title: Option<String>,
}

impl Failure {
    pub(crate) fn new(status: StatusCode, detail: impl Into<String>) -> Failure {
        Failure {
            status,
            detail: detail.into(),
        }
    }

    pub(crate) fn not_found(detail: impl Into<String>) -> Failure {
        Failure::new(StatusCode::NOT_FOUND, detail)
    }

    pub(crate) fn of_answer(answer: &Answer) -> Failure {
        let problem: Option<Problem> = serde_json::from_slice(&answer.body).ok();
        let detail = problem.and_then(|problem| problem.detail.or(problem.title));
        Failure::new(
            answer.status,
            detail.unwrap_or_else(|| "the API gave no reason".to_owned()),
        )
    }

    fn title(&self) -> &'static str {
        match self.status.as_u16() {
            400 => "That cannot be done",
            401 => "Sign in first",
            403 => "Not with this token",
            404 => "Nothing here",
            409 => "It has changed meanwhile",
            429 => "Too often",
            503 => "Not now",
            _ => "Something went wrong",
        }
    }

    /// Title and content of the error page.
    pub(crate) fn page(&self) -> (&'static str, Markup) {
        let content = html! {
            section.card.failure {
                p { (self.detail) "." }
                p.quiet { "Status " (self.status.as_u16()) }
                p { (link_button("/", "Back to the overview")) }
            }
        };
        (self.title(), content)
    }
}

impl IntoResponse for Failure {
    fn into_response(self) -> Response {
        let mut response = self.status.into_response();
        response.extensions_mut().insert(self);
        response
    }
}
