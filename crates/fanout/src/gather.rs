//! The answers of one request on their way to a client that waits for them.
//!
//! They come from the task that runs the request, beside the store: a client that waits sees an answer as soon as it
//! is there, whatever the store does. The channel has room for one answer of each endpoint, so the task never waits for
//! the client; the bodies in it count against `replies_max`, and those beyond it are left out.

use std::sync::Arc;

use bytes::Bytes;
use http::HeaderValue;
use serde_json::{Value, json};
use tokio::sync::mpsc;

use crate::client::{Buffers, Held};
use crate::job::Done;
use crate::outcome::{Outcome, State};
use crate::preferences::{Best, Enough, Side};

/// One endpoint's answer.
#[derive(Debug)]
pub(crate) struct Arrived {
    pub(crate) name: Arc<str>,
    pub(crate) outcome: Outcome,
    pub(crate) body: Option<Bytes>,
    pub(crate) kind: Option<HeaderValue>,
    /// There is a body, but no memory for it here.
    pub(crate) is_left_out: bool,
    held: Option<Held>,
}

/// Where the answers of a request are put.
#[derive(Debug)]
pub(crate) struct Tap {
    sender: mpsc::Sender<Arrived>,
    replies: Arc<Buffers>,
}

impl Tap {
    /// Makes a tap for this many endpoints, and where its answers come out. It ends when the tap is dropped.
    pub(crate) fn new(endpoints: usize, replies: &Arc<Buffers>) -> (Tap, mpsc::Receiver<Arrived>) {
        let (sender, receiver) = mpsc::channel(endpoints.max(1));
        let replies = Arc::clone(replies);
        (Tap { sender, replies }, receiver)
    }

    /// Passes an answer on. It is fetched, but not stored yet.
    pub(crate) fn tell(&self, done: &Done) {
        let answer = &done.answer;
        self.put(
            &answer.name,
            &answer.outcome,
            answer.body.as_ref(),
            done.kind.as_ref(),
        );
    }

    fn put(&self, name: &Arc<str>, outcome: &Outcome, body: Option<&Bytes>, kind: Option<&HeaderValue>) {
        let held = body.and_then(|body| Held::take(&self.replies, body.len()));
        let arrived = Arrived {
            name: Arc::clone(name),
            outcome: outcome.clone(),
            is_left_out: body.is_some() && held.is_none(),
            body: body.filter(|_| held.is_some()).cloned(),
            kind: kind.cloned(),
            held,
        };
        // Who waited may have gone.
        drop(self.sender.try_send(arrived));
    }
}

impl Arrived {
    /// Makes the result of an endpoint that was not asked.
    pub(crate) fn without_body(name: &Arc<str>, outcome: Outcome) -> Arrived {
        Arrived {
            name: Arc::clone(name),
            outcome,
            body: None,
            kind: None,
            is_left_out: false,
            held: None,
        }
    }

    fn is_ok(&self) -> bool {
        self.outcome.state == State::Ok
    }

    /// Gives the body's memory back.
    pub(crate) fn forget_body(&mut self) {
        (self.body, self.held) = (None, None);
    }
}

/// Whether a wait is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    Wait,
    /// There is what was wanted.
    Met,
    /// Too many endpoints have failed for it.
    CannotBeMet,
}

/// What has come so far.
#[derive(Debug)]
pub(crate) struct Gathered {
    /// In the order in which they came.
    pub(crate) answers: Vec<Arrived>,
    /// Endpoints that have not answered.
    awaited: usize,
    enough: Enough,
    best: Option<(Best, Option<Found>)>,
}

/// The best answer so far.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Found {
    pub(crate) name: Arc<str>,
    pub(crate) value: f64,
}

impl Found {
    pub(crate) fn to_json(&self) -> Value {
        /// Above it not every integer can be told from its neighbours.
        const INTEGER_MAX: f64 = 9_007_199_254_740_992.0;
        let is_integer = self.value.fract() == 0.0 && self.value.abs() <= INTEGER_MAX;
        let value = if is_integer {
            json!(self.value as i64)
        } else {
            json!(self.value)
        };
        json!({"endpoint": &*self.name, "value": value})
    }
}

impl Gathered {
    pub(crate) fn new(awaited: usize, enough: Enough, best: Option<Best>) -> Gathered {
        Gathered {
            answers: Vec::with_capacity(awaited),
            awaited,
            enough,
            best: best.map(|best| (best, None)),
        }
    }

    /// Takes an answer in. `value` is what [`value_of`] found in it.
    pub(crate) fn add(&mut self, arrived: Arrived, value: Option<f64>) {
        self.awaited = self.awaited.saturating_sub(1);
        let is_ok = arrived.is_ok();
        if let (Some((best, found)), Some(value)) = (&mut self.best, value.filter(|_| is_ok)) {
            let is_better = |found: &Found| match best.side {
                Side::Max => value > found.value,
                Side::Min => value < found.value,
            };
            // Of equal ones, the first to come.
            if found.as_ref().is_none_or(is_better) {
                let name = Arc::clone(&arrived.name);
                *found = Some(Found { name, value });
            }
        }
        self.answers.push(arrived);
    }

    pub(crate) fn verdict(&self) -> Verdict {
        let has_best = self.best.as_ref().is_none_or(|(_, found)| found.is_some());
        let is_enough = match self.enough {
            Enough::All => self.awaited == 0,
            Enough::Answers(count) => self.ok() >= count,
        };
        let can_be = match self.enough {
            Enough::All => true,
            Enough::Answers(count) => self.ok() + self.awaited >= count,
        };
        if is_enough && has_best {
            Verdict::Met
        } else if !can_be || self.awaited == 0 {
            Verdict::CannotBeMet
        } else {
            Verdict::Wait
        }
    }

    /// Returns whether the client named a rule that can be missed.
    pub(crate) fn has_rule(&self) -> bool {
        self.enough != Enough::All || self.best.is_some()
    }

    /// Returns whether every endpoint is accounted for.
    pub(crate) fn is_complete(&self) -> bool {
        self.awaited == 0
    }

    fn ok(&self) -> usize {
        self.answers.iter().filter(|answer| answer.is_ok()).count()
    }

    pub(crate) fn wanted(&self) -> Option<&Best> {
        self.best.as_ref().map(|(best, _)| best)
    }

    pub(crate) fn best(&self) -> Option<&Found> {
        self.best.as_ref()?.1.as_ref()
    }

    /// Leaves the bodies that the rule chooses: the best one, or the first good ones.
    pub(crate) fn choose(&mut self) {
        let best = self
            .best
            .as_ref()
            .map(|(_, found)| found.as_ref().map(|found| Arc::clone(&found.name)));
        let mut left = match self.enough {
            Enough::All => usize::MAX,
            Enough::Answers(count) => count,
        };
        for answer in &mut self.answers {
            let is_chosen = match &best {
                Some(name) => name.as_ref() == Some(&answer.name),
                None if self.enough == Enough::All => true,
                None => answer.is_ok() && left > 0,
            };
            if !is_chosen {
                answer.forget_body();
                answer.is_left_out = false;
            } else if answer.is_ok() {
                left -= 1;
            }
        }
    }
}

/// Returns the number that a JSON body has at a pointer. Prices are often written as text, so a text that is a number
/// counts as well.
pub(crate) fn value_of(body: &[u8], pointer: &str) -> Option<f64> {
    let body: Value = serde_json::from_slice(body).ok()?;
    let value = match body.pointer(pointer)? {
        Value::Number(number) => number.as_f64()?,
        Value::String(text) => text.trim().parse().ok()?,
        _ => return None,
    };
    value.is_finite().then_some(value)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn arrived(name: &str, state: State) -> Arrived {
        let mut arrived = Arrived::without_body(&name.into(), Outcome::new(state, Duration::ZERO));
        arrived.body = Some(Bytes::from_static(b"x"));
        arrived
    }

    fn bodies(gathered: &Gathered) -> Vec<&str> {
        let with_body = gathered.answers.iter().filter(|answer| answer.body.is_some());
        with_body.map(|answer| &*answer.name).collect()
    }

    #[test]
    fn all_is_met_when_everybody_is_accounted_for() {
        let mut all = Gathered::new(2, Enough::All, None);
        all.add(arrived("a", State::Timeout), None);
        assert_eq!(all.verdict(), Verdict::Wait);
        all.add(arrived("b", State::HttpError), None);
        assert_eq!(all.verdict(), Verdict::Met);
        all.choose();
        assert_eq!(bodies(&all), ["a", "b"]);
    }

    #[test]
    fn a_quorum_is_met_by_good_answers_and_missed_as_soon_as_it_cannot_be() {
        let mut two = Gathered::new(4, Enough::Answers(2), None);
        two.add(arrived("a", State::HttpError), None);
        two.add(arrived("b", State::Ok), None);
        assert_eq!(two.verdict(), Verdict::Wait);
        two.add(arrived("c", State::Ok), None);
        two.add(arrived("d", State::Ok), None);
        assert_eq!(two.verdict(), Verdict::Met);
        two.choose();
        assert_eq!(bodies(&two), ["b", "c"]);
        let mut missed = Gathered::new(3, Enough::Answers(2), None);
        missed.add(arrived("a", State::Refused), None);
        missed.add(arrived("b", State::Timeout), None);
        assert_eq!(
            missed.verdict(),
            Verdict::CannotBeMet,
            "one is left, two are needed"
        );
    }

    #[test]
    fn the_best_of_good_answers_is_found_and_the_first_of_equals() {
        let best = |side| Best {
            pointer: "/price".to_owned(),
            side,
        };
        for (side, expected) in [(Side::Min, "c"), (Side::Max, "b")] {
            let mut gathered = Gathered::new(5, Enough::All, Some(best(side)));
            gathered.add(arrived("wrong", State::HttpError), Some(-1.0));
            for (name, value) in [("b", Some(7.0)), ("c", Some(3.0)), ("d", Some(3.0)), ("e", None)] {
                gathered.add(arrived(name, State::Ok), value);
            }
            assert_eq!(gathered.verdict(), Verdict::Met);
            gathered.choose();
            assert_eq!(bodies(&gathered), [expected]);
        }
        let mut none = Gathered::new(1, Enough::All, Some(best(Side::Max)));
        none.add(arrived("a", State::Ok), None);
        assert_eq!(none.verdict(), Verdict::CannotBeMet, "nobody has the field");
        none.choose();
        assert_eq!(bodies(&none), Vec::<&str>::new());
    }

    #[test]
    fn values_are_numbers_and_texts_that_are() {
        let body = br#"{"a": 1.5, "b": "20", "c": {"d": [3]}, "e": "x", "f": "inf", "g": null}"#;
        let value = |pointer| value_of(body, pointer);
        assert_eq!(
            (value("/a"), value("/b"), value("/c/d/0")),
            (Some(1.5), Some(20.0), Some(3.0))
        );
        for none in ["/e", "/f", "/g", "/h", "/c"] {
            assert_eq!(value(none), None, "{none}");
        }
        assert_eq!(value_of(b"no json", "/a"), None);
        assert_eq!(value_of("[".repeat(100_000).as_bytes(), "/a"), None);
    }

    #[test]
    fn bodies_beyond_the_memory_are_left_out_and_it_is_given_back() {
        let replies = Arc::new(Buffers::new(10));
        let (tap, mut receiver) = Tap::new(2, &replies);
        let (outcome, body) = (
            Outcome::new(State::Ok, Duration::ZERO),
            Bytes::from_static(b"1234567"),
        );
        tap.put(&"a".into(), &outcome, Some(&body), None);
        tap.put(&"b".into(), &outcome, Some(&body), None);
        tap.put(&"beyond".into(), &outcome, None, None);
        let (first, second) = (receiver.try_recv().unwrap(), receiver.try_recv().unwrap());
        assert_eq!((first.body.is_some(), first.is_left_out), (true, false));
        assert_eq!((second.body.is_some(), second.is_left_out), (false, true));
        assert!(receiver.try_recv().is_err(), "there are two endpoints");
        drop((first, second));
        assert!(Held::take(&replies, 10).is_some());
    }
}
