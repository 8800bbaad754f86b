//! Answers questions received over Pub/Sub.

use std::collections::BTreeMap;
use std::time::Duration;

use tokio::sync::oneshot;
use tokio::task::JoinSet;

use super::runner::Question;
use super::task::Handle;
use crate::ask::{InstanceAnswer, QuestionMessage};
use crate::name::{InstanceName, WorkerId};
use crate::store::Store;

/// Questions that an agent answers concurrently. Further ones get no answer, which the asker reports as
/// silence.
const QUESTIONS_MAX: usize = 64;

/// Forwards a question to the workers it addresses and publishes their answers.
pub(super) fn begin(
    store: &Store,
    instance: &InstanceName,
    handles: &BTreeMap<WorkerId, Handle>,
    payload: &[u8],
    tasks: &mut JoinSet<()>,
) {
    let Some(message) = QuestionMessage::parse(payload) else {
        tracing::warn!("unreadable question");
        return;
    };
    let asked = |worker: &WorkerId| message.worker.as_ref().is_none_or(|wanted| wanted == worker);
    let mut waiting = Vec::new();
    for (worker, handle) in handles.iter().filter(|(worker, _)| asked(worker)) {
        let (answer, received) = oneshot::channel();
        let question = Question {
            key: message.key.clone(),
            answer,
        };
        // A worker whose queue is full does not answer this question.
        let _ = handle.questions.try_send(question);
        waiting.push((worker.clone(), received));
    }
    // A question to a single worker is answered by its owner only.
    if (message.worker.is_some() && waiting.is_empty()) || tasks.len() >= QUESTIONS_MAX {
        return;
    }
    let (store, instance) = (store.clone(), instance.clone());
    tasks.spawn(async move {
        let answer = collect(instance, waiting, message.limit).await;
        let channel = store.answer_channel(&message.id);
        if let Err(error) = store.publish(&channel, answer.to_json().as_bytes()).await {
            tracing::warn!(error = error.chain(), "answer not published");
        }
    });
}

async fn collect(
    instance: InstanceName,
    waiting: Vec<(WorkerId, oneshot::Receiver<Result<String, String>>)>,
    limit: Duration,
) -> InstanceAnswer {
    let mut answer = InstanceAnswer::of(instance);
    let deadline = tokio::time::Instant::now() + limit;
    for (worker, received) in waiting {
        let said = match tokio::time::timeout_at(deadline, received).await {
            Ok(Ok(said)) => said,
            Ok(Err(_)) => Err("the worker does not answer".into()),
            Err(_) => Err("the worker did not answer in time".into()),
        };
        match said {
            Ok(text) => answer.answers.insert(worker, text),
            Err(reason) => answer.failures.insert(worker, reason),
        };
    }
    answer
}
