//! Actions on one job: retry it, cancel it, deliver its result again.

use axum::extract::Path;
use maud::{Markup, html};
use serde_json::json;

use crate::failure::Failure;
use crate::form::encode;
use crate::html::Question;
use crate::layout::{Nav, Page};
use crate::pages::Shown;
use crate::request::{PageRequest, redirect};

pub(super) async fn ask_retry(request: PageRequest, Path(id): Path<String>) -> Shown {
    let text = html! { p { "The job starts over with all its attempts, as soon as a worker takes it." } };
    ask(&request, &id, "retry", text, html! {}, "Run it again")
}

pub(super) async fn ask_cancel(request: PageRequest, Path(id): Path<String>) -> Shown {
    let text = html! {
        p { "The job ends as cancelled. A worker that has it is told at its next report, which is refused. Jobs that wait for it are cancelled as well." }
    };
    let fields = html! {
        div { label for="reason" { "Reason, if there is one" } input #reason name="reason" maxlength="4096"; }
    };
    ask(&request, &id, "cancel", text, fields, "Cancel the job")
}

pub(super) async fn ask_replay(request: PageRequest, Path(id): Path<String>) -> Shown {
    let text = html! {
        p { "Every delivery of this job is sent again, also those that arrived. Receivers see the same ids and can tell repeats by them." }
    };
    ask(&request, &id, "replay", text, html! {}, "Send again")
}

fn ask(request: &PageRequest, id: &str, verb: &str, text: Markup, fields: Markup, button: &str) -> Shown {
    request.require(request.rights().enqueue)?;
    let path = format!("/jobs/{}", encode(id));
    let question = Question {
        action: &format!("{path}/{verb}"),
        text,
        fields,
        button,
        is_dangerous: verb == "cancel",
        back: &path,
    };
    let page = Page {
        title: format!("{button}?"),
        nav: Nav::Jobs,
        content: question.ask(request),
    };
    Ok(page.render(request))
}

pub(super) async fn retry(request: PageRequest, Path(id): Path<String>) -> Shown {
    request
        .post(&format!("/v1/jobs/{}/retry", encode(&id)), None)
        .await?;
    Ok(redirect(&format!("/jobs/{}?done=retry", encode(&id))))
}

pub(super) async fn cancel(request: PageRequest, Path(id): Path<String>) -> Shown {
    let body = request.form("reason").map(|reason| json!({"reason": reason}));
    request
        .post(&format!("/v1/jobs/{}/cancel", encode(&id)), body)
        .await?;
    Ok(redirect(&format!("/jobs/{}?done=cancel", encode(&id))))
}

pub(super) async fn replay(request: PageRequest, Path(id): Path<String>) -> Shown {
    let answer = request
        .post("/v1/deliveries/replay", Some(json!({"job": id})))
        .await?;
    let count = answer["replayed"].as_u64();
    let count = count.ok_or_else(|| Failure::not_found("there is no delivery to send again"))?;
    Ok(redirect(&format!("/jobs/{}?done=replay&n={count}", encode(&id))))
}

#[cfg(test)]
mod tests {
    use axum::http::Method;

    use super::*;
    use crate::testing::TestConsole;

    #[tokio::test]
    async fn a_cancellation_carries_its_reason() {
        let console = TestConsole::open();
        console.answer_to(
            Method::POST,
            "/v1/jobs/7/cancel",
            200,
            json!({"id": "7", "state": "cancelled"}),
        );
        let answer = console.post("/jobs/7/cancel", None, "reason=by+mistake").await;
        assert_eq!(answer.location(), "/jobs/7?done=cancel");
        let sent = (
            Method::POST,
            "/v1/jobs/7/cancel".to_owned(),
            Some(json!({"reason": "by mistake"})),
        );
        assert_eq!(console.changes(), [sent]);
    }

    #[tokio::test]
    async fn what_the_api_refuses_is_told_in_its_words() {
        let console = TestConsole::open();
        console.answer_to(
            Method::POST,
            "/v1/jobs/7/retry",
            409,
            json!({"detail": "job 7 is running"}),
        );
        let answer = console.post("/jobs/7/retry", None, "").await;
        assert!(
            answer.status == 409 && answer.body.contains("job 7 is running"),
            "{}",
            answer.body
        );
    }

    #[tokio::test]
    async fn a_replay_says_how_many_are_sent_again() {
        let console = TestConsole::open();
        console.answer_to(
            Method::POST,
            "/v1/deliveries/replay",
            200,
            json!({"replayed": 2, "more": false}),
        );
        let answer = console.post("/jobs/7/replay", None, "").await;
        assert_eq!(answer.location(), "/jobs/7?done=replay&n=2");
    }
}
