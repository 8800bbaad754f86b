//! The same change for all jobs that a filter means.

use maud::html;

use super::filter::Filter;
use crate::failure::Failure;
use crate::html::Question;
use crate::layout::{Nav, Page};
use crate::pages::Shown;
use crate::request::{PageRequest, redirect};

/// Most pages of jobs that one click changes; the API changes up to 1000 with each.
const PAGES_MAX: usize = 100;

pub(super) async fn ask_retry(request: PageRequest) -> Shown {
    ask(
        &request,
        "retry",
        "Run them all again",
        "They start over with all their attempts.",
    )
}

pub(super) async fn ask_cancel(request: PageRequest) -> Shown {
    ask(
        &request,
        "cancel",
        "Cancel them all",
        "They end as cancelled, and so do jobs that wait for them.",
    )
}

fn ask(request: &PageRequest, verb: &str, button: &str, text: &str) -> Shown {
    request.require(request.rights().enqueue)?;
    let filter = Filter::read(&request.info.query);
    let back = filter.path("/jobs", None);
    let states = match (verb, &filter.state) {
        (_, Some(_)) => "",
        ("retry", None) => "Of these, the failed and cancelled ones.",
        (_, None) => "Of these, all that have not ended.",
    };
    let question = Question {
        action: &format!("/jobs/bulk/{verb}"),
        text: html! { p { "All jobs with:" } (filter.words()) p { (states) } p { (text) } },
        fields: filter.hidden(),
        button,
        is_dangerous: verb == "cancel",
        back: &back,
    };
    let page = Page {
        title: format!("{button}?"),
        nav: Nav::Jobs,
        content: question.ask(request),
    };
    Ok(page.render(request))
}

pub(super) async fn retry(request: PageRequest) -> Shown {
    change(&request, "retry").await
}

pub(super) async fn cancel(request: PageRequest) -> Shown {
    change(&request, "cancel").await
}

async fn change(request: &PageRequest, verb: &str) -> Shown {
    let filter = Filter::read(&request.info.form);
    let changed = pages(request, &filter, verb).await?;
    let mut back = filter.path("/jobs", None);
    back.push(if back.contains('?') { '&' } else { '?' });
    Ok(redirect(&format!("{back}done={verb}&n={changed}")))
}

async fn pages(request: &PageRequest, filter: &Filter, verb: &str) -> Result<u64, Failure> {
    let (mut changed, mut cursor) = (0, None::<String>);
    for _ in 0..PAGES_MAX {
        let body = filter.body(cursor.as_deref());
        let answer = request.post(&format!("/v1/jobs/{verb}"), Some(body)).await?;
        changed += answer["changed"].as_u64().unwrap_or(0);
        cursor = answer["next_cursor"].as_str().map(str::to_owned);
        if cursor.is_none() {
            break;
        }
    }
    Ok(changed)
}

#[cfg(test)]
mod tests {
    use axum::http::Method;
    use serde_json::json;

    use crate::testing::TestConsole;

    #[tokio::test]
    async fn a_bulk_change_says_what_it_means_and_sends_the_filter() {
        let console = TestConsole::open();
        console.answer_to(
            Method::POST,
            "/v1/jobs/retry",
            200,
            json!({"changed": 12, "refused": 0}),
        );
        let page = console.get("/jobs/bulk/retry?queue=mail&state=failed").await;
        assert!(
            page.body.contains("<b>mail</b>") && page.body.contains("value=\"failed\""),
            "{}",
            page.body
        );
        let answer = console
            .post("/jobs/bulk/retry", None, "queue=mail&state=failed")
            .await;
        assert_eq!(answer.location(), "/jobs?queue=mail&state=failed&done=retry&n=12");
        let (_, _, body) = console.changes().remove(0);
        assert_eq!(body, Some(json!({"queue": "mail", "states": ["failed"]})));
    }
}
