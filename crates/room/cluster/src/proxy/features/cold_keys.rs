//! The cold tier's part of requests about all data: SCAN, KEYS and DBSIZE.

use nagaya_command_spec::glob;
use nagaya_resp::{Args, Out, Proto, parse_i64};
use nagaya_tiering::cold::Kind;

use crate::proxy::config::Kinds;
use crate::proxy::env::Env;
use crate::proxy::inbox::{ColdAnswer, Item};
use crate::proxy::model::Map;
use crate::proxy::model::in_flight::Origin;
use crate::proxy::model::outbox::Outbox;
use crate::proxy::model::request::{ColdRead, ColdReadKind, Request};

/// Keys per page when all are wanted: large enough to make round trips cheap.
const PAGE: usize = 1000;
/// Keys that SCAN returns without COUNT, as in Redis.
const SCAN_COUNT: usize = 10;

/// Questions that the cold tier has not answered yet.
#[derive(Default)]
pub(crate) struct ColdQuestions {
    open: Map<u64, ColdQuestion>,
    asked: u64,
}

struct ColdQuestion {
    origin: Origin,
    pattern: Option<Vec<u8>>,
    kinds: Kinds,
    /// Names collected so far if all are wanted; otherwise one page is the answer.
    all: Option<Vec<Vec<u8>>>,
}

impl ColdQuestions {
    /// Reads from the cold tier for a request.
    pub(crate) fn start(&mut self, env: &Env<'_>, read: ColdRead, request: &Request<'_>) {
        let mut question = ColdQuestion {
            origin: read.origin,
            pattern: None,
            kinds: Kinds::All,
            all: None,
        };
        match read.kind {
            ColdReadKind::Count => {
                let number = self.open(question);
                count_keys(env, number);
            }
            ColdReadKind::AllKeys => {
                question.pattern = request.args.get(1).map(<[u8]>::to_vec);
                question.all = Some(Vec::new());
                let number = self.open(question);
                read_page(env, number, Kinds::All, 0, PAGE);
            }
            ColdReadKind::Page { cursor } => {
                let count = option(&request.args, b"COUNT").and_then(parse_i64);
                let count = count.and_then(|count| usize::try_from(count).ok());
                let kinds = option(&request.args, b"TYPE").map_or(Kinds::All, kinds_named);
                question.pattern = option(&request.args, b"MATCH").map(<[u8]>::to_vec);
                question.kinds = kinds;
                let number = self.open(question);
                read_page(
                    env,
                    number,
                    kinds,
                    cursor,
                    count.unwrap_or(SCAN_COUNT).clamp(1, PAGE),
                );
            }
        }
    }

    fn open(&mut self, question: ColdQuestion) -> u64 {
        self.asked += 1;
        self.open.insert(self.asked, question);
        self.asked
    }

    /// Processes an answer of the cold tier.
    pub(crate) fn on_answer(
        &mut self,
        outbox: &mut Outbox,
        env: &Env<'_>,
        number: u64,
        answer: Result<ColdAnswer, String>,
    ) {
        let Some(mut question) = self.open.remove(&number) else {
            return;
        };
        let (next, mut keys) = match answer {
            Err(reason) => {
                let reason = reason.replace(['\r', '\n'], " ");
                let text = format!("TRYAGAIN the cold tier does not answer: {reason}");
                return outbox.fail(question.origin, &text);
            }
            Ok(ColdAnswer::Count(count)) => {
                env.shared.key_count.set(count);
                return outbox.push(question.origin, format!(":{count}\r\n").into_bytes());
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
                    self.open.insert(number, question);
                    return read_page(env, number, kinds, next, PAGE);
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
        outbox.push(question.origin, out.buf);
    }
}

/// Counts the keys of both tiers.
fn count_keys(env: &Env<'_>, number: u64) {
    let inbox = env.inbox.clone();
    if let Some(tiering) = &env.shared.config.tiering {
        let done = move |count: Result<u64, String>| {
            inbox.push(Item::Cold(number, count.map(ColdAnswer::Count)));
        };
        tiering.cold_keys.count(Box::new(done));
    }
}

fn read_page(env: &Env<'_>, number: u64, kinds: Kinds, cursor: u64, count: usize) {
    let inbox = env.inbox.clone();
    if let Some(tiering) = &env.shared.config.tiering {
        let done = move |page: Result<(u64, Vec<Vec<u8>>), String>| {
            let answer = page.map(|(next, keys)| ColdAnswer::Page { next, keys });
            inbox.push(Item::Cold(number, answer));
        };
        tiering.cold_keys.scan(cursor, count, kinds, Box::new(done));
    }
}

/// Returns the type with this name, in any case.
fn kinds_named(name: &[u8]) -> Kinds {
    Kind::ALL
        .into_iter()
        .find(|kind| name.eq_ignore_ascii_case(kind.name().as_bytes()))
        .map_or(Kinds::None, Kinds::Only)
}

/// Returns the value of an option of SCAN.
fn option<'a>(args: &Args<'a>, name: &[u8]) -> Option<&'a [u8]> {
    let at = (2..args.len())
        .step_by(2)
        .find(|at| args[*at].eq_ignore_ascii_case(name))?;
    args.get(at + 1)
}
