//! The cold tier's part of what is asked about all data.

use nagaya_commands::glob;
use nagaya_resp::{Args, Out, Proto, parse_i64};
use nagaya_tiering::cold::Kind;

use super::config::Kinds;
use super::inbox::{ColdAnswer, Item};
use super::model::Map;
use super::model::in_flight::Origin;
use super::model::request::Request;
use super::slab::Key;
use super::worker::Worker;

/// Keys asked for at a time when all are wanted.
const PAGE: usize = 1000;
/// What SCAN returns about, unless told.
const SCAN_COUNT: usize = 10;

/// ColdQuestions that the cold tier has not answered yet.
#[derive(Default)]
pub(crate) struct ColdQuestions {
    open: Map<u64, ColdQuestion>,
    asked: u64,
}

struct ColdQuestion {
    origin: Origin,
    pattern: Option<Vec<u8>>,
    kinds: Kinds,
    /// Names collected so far when all are wanted; one page is the answer otherwise.
    all: Option<Vec<Vec<u8>>>,
}

impl Worker<'_> {
    /// Asks how many keys there are in both tiers.
    pub(super) fn count_both_tiers(&mut self, gather: Key) {
        let number = self.open_question(ColdQuestion {
            origin: Origin::Part { gather, part: 0 },
            pattern: None,
            kinds: Kinds::All,
            all: None,
        });
        let inbox = self.inbox.clone();
        if let Some(tiering) = &self.shared.config.tiering {
            let done = move |count: Result<u64, String>| {
                inbox.push(Item::Cold(number, count.map(ColdAnswer::Count)));
            };
            tiering.cold_keys.count(Box::new(done));
        }
    }

    /// Asks for all names that match the pattern of KEYS.
    pub(super) fn ask_cold_names(&mut self, gather: Key, part: u32, request: &Request<'_>) {
        let number = self.open_question(ColdQuestion {
            origin: Origin::Part { gather, part },
            pattern: request.args.get(1).map(<[u8]>::to_vec),
            kinds: Kinds::All,
            all: Some(Vec::new()),
        });
        self.ask_cold_page(number, Kinds::All, 0, PAGE);
    }

    /// Asks for one page of a SCAN.
    pub(super) fn scan_cold(&mut self, gather: Key, cursor: u64, request: &Request<'_>) {
        let count = option(&request.args, b"COUNT").and_then(parse_i64);
        let count = count
            .and_then(|count| usize::try_from(count).ok())
            .unwrap_or(SCAN_COUNT);
        let kinds = option(&request.args, b"TYPE").map_or(Kinds::All, kinds_named);
        let number = self.open_question(ColdQuestion {
            origin: Origin::Part { gather, part: 0 },
            pattern: option(&request.args, b"MATCH").map(<[u8]>::to_vec),
            kinds,
            all: None,
        });
        self.ask_cold_page(number, kinds, cursor, count.clamp(1, PAGE));
    }

    fn open_question(&mut self, question: ColdQuestion) -> u64 {
        self.questions.asked += 1;
        self.questions.open.insert(self.questions.asked, question);
        self.questions.asked
    }

    fn ask_cold_page(&mut self, number: u64, kinds: Kinds, cursor: u64, count: usize) {
        let inbox = self.inbox.clone();
        if let Some(tiering) = &self.shared.config.tiering {
            let done = move |page: Result<(u64, Vec<Vec<u8>>), String>| {
                let answer = page.map(|(next, keys)| ColdAnswer::Page { next, keys });
                inbox.push(Item::Cold(number, answer));
            };
            tiering.cold_keys.scan(cursor, count, kinds, Box::new(done));
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
                    let kinds = question.kinds;
                    self.questions.open.insert(number, question);
                    return self.ask_cold_page(number, kinds, next, PAGE);
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

/// Finds a type by its name, however it is written.
fn kinds_named(name: &[u8]) -> Kinds {
    Kind::ALL
        .into_iter()
        .find(|kind| name.eq_ignore_ascii_case(kind.name().as_bytes()))
        .map_or(Kinds::None, Kinds::Only)
}

/// Finds the value behind an option of SCAN.
fn option<'a>(args: &Args<'a>, name: &[u8]) -> Option<&'a [u8]> {
    let at = (2..args.len())
        .step_by(2)
        .find(|at| args[*at].eq_ignore_ascii_case(name))?;
    args.get(at + 1)
}
