//! Questions to all workers or to one: the request and direct request of document 000.
//!
//! The result has the answers that arrived and the names of those that did not answer, so one silent instance
//! does not fail the call.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use nagaya_redis_client::{Event, Subscriber, Topics};
use serde_json::{Value, json};

use crate::name::{InstanceName, WorkerId};
use crate::store::{Error, InstanceState, Store};

/// Time reserved for the reply, so that one slow worker does not cost its whole instance's answer.
const REPLY_MARGIN: Duration = Duration::from_millis(200);

/// A question as published.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct QuestionMessage {
    pub(crate) id: String,
    pub(crate) key: String,
    pub(crate) worker: Option<WorkerId>,
    /// How long workers may take to answer.
    pub(crate) limit: Duration,
}

impl QuestionMessage {
    pub(crate) fn parse(payload: &[u8]) -> Option<QuestionMessage> {
        let value: Value = serde_json::from_slice(payload).ok()?;
        let text = |name: &str| value.get(name).and_then(Value::as_str);
        let worker = match text("worker") {
            None => None,
            Some(worker) => Some(WorkerId::new(worker).ok()?),
        };
        Some(QuestionMessage {
            id: text("id")?.to_owned(),
            key: text("key")?.to_owned(),
            worker,
            limit: Duration::from_millis(value.get("limit_ms")?.as_u64()?),
        })
    }

    fn to_json(&self) -> String {
        let limit_ms = u64::try_from(self.limit.as_millis()).unwrap_or(u64::MAX);
        let mut value = json!({"id": self.id, "key": self.key, "limit_ms": limit_ms});
        if let Some(worker) = &self.worker {
            value["worker"] = worker.as_str().into();
        }
        value.to_string()
    }
}

/// The answers of one instance's workers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InstanceAnswer {
    pub instance: InstanceName,
    pub answers: BTreeMap<WorkerId, String>,
    /// Workers that did not answer, and why.
    pub failures: BTreeMap<WorkerId, String>,
}

impl InstanceAnswer {
    pub(crate) fn of(instance: InstanceName) -> InstanceAnswer {
        InstanceAnswer {
            instance,
            answers: BTreeMap::new(),
            failures: BTreeMap::new(),
        }
    }

    pub(crate) fn to_json(&self) -> String {
        let map = |map: &BTreeMap<WorkerId, String>| {
            let pairs = map
                .iter()
                .map(|(worker, text)| (worker.to_string(), Value::from(text.as_str())));
            Value::Object(pairs.collect())
        };
        let (answers, failures) = (map(&self.answers), map(&self.failures));
        json!({"instance": self.instance.as_str(), "answers": answers, "failures": failures}).to_string()
    }

    fn parse(payload: &[u8]) -> Option<InstanceAnswer> {
        let value: Value = serde_json::from_slice(payload).ok()?;
        let map = |name: &str| {
            let pairs = value.get(name)?.as_object()?.iter();
            pairs
                .map(|(worker, text)| Some((WorkerId::new(worker).ok()?, text.as_str()?.to_owned())))
                .collect::<Option<BTreeMap<_, _>>>()
        };
        Some(InstanceAnswer {
            instance: InstanceName::new(value.get("instance")?.as_str()?).ok()?,
            answers: map("answers")?,
            failures: map("failures")?,
        })
    }
}

/// The answers that arrived in time, and which instances are missing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Answers {
    pub instances: Vec<InstanceAnswer>,
    /// Instances that were expected to answer and did not.
    pub silent: BTreeSet<InstanceName>,
}

impl Answers {
    /// Returns whether every asked instance and worker answered.
    pub fn is_whole(&self) -> bool {
        self.silent.is_empty() && self.instances.iter().all(|one| one.failures.is_empty())
    }

    pub fn to_json(&self) -> Value {
        let map = |pick: fn(&InstanceAnswer) -> &BTreeMap<WorkerId, String>| {
            let all = self.instances.iter().flat_map(pick);
            let pairs = all.map(|(worker, text)| (worker.to_string(), Value::from(text.as_str())));
            Value::Object(pairs.collect())
        };
        let silent: Vec<&str> = self.silent.iter().map(InstanceName::as_str).collect();
        json!({
            "answers": map(|one| &one.answers), "failures": map(|one| &one.failures), "silent": silent,
        })
    }

    pub fn to_table(&self) -> String {
        let mut table = crate::status::new_table(&["WORKER", "INSTANCE", "ANSWER"]);
        for one in &self.instances {
            for (worker, text) in &one.answers {
                table.add_row([worker.as_str(), one.instance.as_str(), text]);
            }
            for (worker, reason) in &one.failures {
                table.add_row([
                    worker.as_str(),
                    one.instance.as_str(),
                    &format!("(none: {reason})"),
                ]);
            }
        }
        for instance in &self.silent {
            table.add_row(["*", instance.as_str(), "(no answer in time)"]);
        }
        format!("{table}\n")
    }
}

/// Asks all workers, or one, and waits until all have answered or the time is over.
pub async fn ask(
    store: &Store,
    key: &str,
    worker: Option<&WorkerId>,
    limit: Duration,
) -> Result<Answers, Error> {
    let mut answers = Answers::default();
    let snapshot = match worker {
        Some(worker) => store.worker_snapshot(worker).await?,
        None => store.snapshot(Some(u64::MAX)).await?,
    };
    match worker {
        None => {
            let alive = snapshot
                .instances
                .iter()
                .filter(|(_, record)| record.state != InstanceState::Dead);
            answers.silent.extend(alive.map(|(name, _)| name.clone()));
        }
        Some(worker) => {
            let place = snapshot.places.as_ref().and_then(|places| places.get(worker));
            let place = place.ok_or_else(|| Error::NotInstalled(worker.clone()))?;
            answers.silent.extend(place.owner.clone());
        }
    }
    if answers.silent.is_empty() {
        return Ok(answers);
    }
    let message = QuestionMessage {
        id: crate::random_id(),
        key: key.to_owned(),
        worker: worker.cloned(),
        limit: limit.saturating_sub(REPLY_MARGIN).max(limit / 2),
    };
    // On a timeout, the answers received so far are kept.
    let _ = tokio::time::timeout(limit, collect(store, &message, &mut answers)).await;
    Ok(answers)
}

async fn collect(store: &Store, message: &QuestionMessage, answers: &mut Answers) {
    let topics = Topics {
        channels: vec![store.answer_channel(&message.id)],
        patterns: Vec::new(),
    };
    let mut subscriber = Subscriber::start(store.client().clone(), topics);
    while !answers.silent.is_empty() {
        match subscriber.next().await {
            // Publishes the question once, after the subscription for its answers is active.
            Event::Ready => {
                let question = message.to_json();
                if let Err(error) = store.publish(&store.ask_channel(), question.as_bytes()).await {
                    tracing::warn!(error = error.chain(), "question not published");
                    return;
                }
            }
            Event::Message { payload, .. } => {
                let Some(answer) = InstanceAnswer::parse(&payload) else {
                    tracing::warn!("unreadable answer");
                    continue;
                };
                if answers.silent.remove(&answer.instance) {
                    answers.instances.push(answer);
                }
            }
            Event::Gap => (),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn questions_and_answers_survive_the_way() {
        let message = QuestionMessage {
            id: "1".into(),
            key: "temperature \"now\"".into(),
            worker: Some(WorkerId::new("w").unwrap()),
            limit: Duration::from_millis(1500),
        };
        let read = QuestionMessage::parse(message.to_json().as_bytes());
        assert_eq!(read, Some(message));
        let mut answer = InstanceAnswer::of(InstanceName::new("i").unwrap());
        answer.answers.insert(WorkerId::new("w").unwrap(), "21 °C".into());
        assert_eq!(InstanceAnswer::parse(answer.to_json().as_bytes()), Some(answer));
        assert_eq!(QuestionMessage::parse(b"{}"), None);
    }
}
