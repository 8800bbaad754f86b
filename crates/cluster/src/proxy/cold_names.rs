//! The cold tier's part of what is asked about all data.

use nagaya_commands::glob;
use nagaya_resp::{Args, Out, Proto, parse_i64};

use super::flight::Origin;
use super::front::Request;
use super::inbox::{ColdAnswer, Item};
use super::routes::Gather;
use super::slab::Key;
use super::worker::{Map, Worker};

/// Keys asked for at a time when all are wanted.
const PAGE: usize = 1000;
/// What SCAN returns about, unless told.
const SCAN_COUNT: usize = 10;

/// Questions that the cold tier has not answered yet.
#[derive(Default)]
pub(crate) struct Questions {
    open: Map<u64, Question>,
    asked: u64,
}

struct Question {
    origin: Origin,
    pattern: Option<Vec<u8>>,
    /// Names collected so far when all are wanted; one page is the answer otherwise.
    all: Option<Vec<Vec<u8>>>,
}

impl Worker<'_> {
    /// Asks for the part of a reply about all data.
    pub(super) fn ask_cold(&mut self, join: Key, part: u32, gather: Gather, request: &Request<'_>) {
        let origin = Origin::Part { join, part };
        if gather == Gather::Sum {
            let question = Question {
                origin,
                pattern: None,
                all: None,
            };
            let number = self.open_question(question);
            let inbox = self.inbox.clone();
            if let Some(tiering) = &self.shared.config.tiering {
                let done = move |count: Result<u64, String>| {
                    inbox.push(Item::Cold(number, count.map(ColdAnswer::Count)));
                };
                tiering.cold_keys.count(Box::new(done));
            }
            return;
        }
        let question = Question {
            origin,
            pattern: request.args.get(1).map(<[u8]>::to_vec),
            all: Some(Vec::new()),
        };
        let number = self.open_question(question);
        self.ask_cold_page(number, 0, PAGE);
    }

    /// Asks for one page of a SCAN. What type a cold key has is not looked up: with TYPE none is told.
    pub(super) fn scan_cold(&mut self, join: Key, cursor: u64, request: &Request<'_>) {
        let origin = Origin::Part { join, part: 0 };
        let count = option(&request.args, b"COUNT").and_then(parse_i64);
        let count = count
            .and_then(|count| usize::try_from(count).ok())
            .unwrap_or(SCAN_COUNT);
        let no_match = option(&request.args, b"TYPE").map(|_| b"[]".to_vec());
        let pattern = no_match.or_else(|| option(&request.args, b"MATCH").map(<[u8]>::to_vec));
        let number = self.open_question(Question {
            origin,
            pattern,
            all: None,
        });
        self.ask_cold_page(number, cursor, count.clamp(1, PAGE));
    }

    fn open_question(&mut self, question: Question) -> u64 {
        self.questions.asked += 1;
        self.questions.open.insert(self.questions.asked, question);
        self.questions.asked
    }

    fn ask_cold_page(&mut self, number: u64, cursor: u64, count: usize) {
        let inbox = self.inbox.clone();
        if let Some(tiering) = &self.shared.config.tiering {
            let done = move |page: Result<(u64, Vec<Vec<u8>>), String>| {
                let answer = page.map(|(next, keys)| ColdAnswer::Page { next, keys });
                inbox.push(Item::Cold(number, answer));
            };
            tiering.cold_keys.scan(cursor, count, Box::new(done));
        }
    }

    /// Takes an answer of the cold tier.
    pub(super) fn on_cold(&mut self, number: u64, answer: Result<ColdAnswer, String>) {
        let Some(mut question) = self.questions.open.remove(&number) else {
            return;
        };
        let (next, mut keys) = match answer {
            Err(reason) => {
                let reason = reason.replace(['\r', '\n'], " ");
                return self.fail(
                    question.origin,
                    &format!("TRYAGAIN the cold tier does not answer: {reason}"),
                );
            }
            Ok(ColdAnswer::Count(count)) => {
                return self.deliver(question.origin, format!(":{count}\r\n").as_bytes());
            }
            Ok(ColdAnswer::Page { next, keys }) => (next, keys),
        };
        if let Some(pattern) = &question.pattern {
            keys.retain(|key| glob::matches(pattern, key));
        }
        let mut out = Out::new(Proto::Resp2);
        match &mut question.all {
            Some(all) => {
                all.append(&mut keys);
                if next != 0 {
                    self.questions.open.insert(number, question);
                    return self.ask_cold_page(number, next, PAGE);
                }
                out.array(all.len());
                all.iter().for_each(|key| out.bulk(key));
            }
            None => {
                out.array(2);
                out.bulk_str(&next.to_string());
                out.array(keys.len());
                keys.iter().for_each(|key| out.bulk(key));
            }
        }
        self.deliver(question.origin, &out.buf);
    }
}

/// Finds the value behind an option of SCAN.
fn option<'a>(args: &Args<'a>, name: &[u8]) -> Option<&'a [u8]> {
    let at = (2..args.len())
        .step_by(2)
        .find(|at| args[*at].eq_ignore_ascii_case(name))?;
    args.get(at + 1)
}
