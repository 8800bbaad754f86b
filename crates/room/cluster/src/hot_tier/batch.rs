//! Runs scripts for many tags at once: one pipeline per node, all nodes in parallel.

use nagaya_redis_client::{Error, Frame, reply};
use nagaya_tiering::error::HotError;

use super::keys;
use super::nodes::{Nodes, Words};
use super::run::RunDigest;
use super::scripts::{Call, Form};

/// How often a call that a node refused as misplaced is sent again: a slot moves once, rarely twice, in
/// the time of one call.
const PLACINGS_MAX: usize = 3;

/// The result for one tag or slot.
pub(crate) type Answer = Result<Frame, Error>;

/// A reply about one slot, and the node's time.
pub(crate) struct SlotReply {
    /// The index of the command.
    pub(crate) at: usize,
    pub(crate) slot: u16,
    pub(crate) now_ms: i64,
    pub(crate) frame: Frame,
}

impl Nodes {
    /// Runs a script for each of the tags; results are in the same order.
    ///
    /// A call whose slot or primary has moved meanwhile is sent again to its new place: every script may
    /// run twice. A call that is refused because the slot is being moved is not sent to the new node: with
    /// half of the keys on each node, a key that is absent on one of them is not a deleted key.
    pub(crate) async fn run_scripts(
        &self,
        tags: &[&[u8]],
        make: impl Fn(usize, &RunDigest) -> Call,
    ) -> Vec<Answer> {
        let mut answers: Vec<Option<Answer>> = tags.iter().map(|_| None).collect();
        let mut pending: Vec<usize> = (0..tags.len()).collect();
        for placing in 1..=PLACINGS_MAX {
            let slots = pending.iter().map(|at| (keys::slot_of(tags[*at]), *at));
            let placed = self.place(slots.collect()).await;
            let (shares, lost) = match placed {
                Ok(placed) => placed,
                Err(error) => {
                    fill_error(&mut answers, &pending, error);
                    break;
                }
            };
            for (at, error) in lost {
                answers[at] = Some(Err(error));
            }
            let runs = shares.iter().map(|share| self.run_share(share, &make));
            let ends = futures_util::future::join_all(runs).await;
            pending.clear();
            for (share, ended) in shares.iter().zip(ends) {
                match ended {
                    Ok(ended) => {
                        for (at, answer) in share.members.iter().zip(ended) {
                            if answer.as_ref().is_err_and(is_elsewhere) {
                                pending.push(*at);
                            }
                            answers[*at] = Some(answer);
                        }
                    }
                    Err(error) => {
                        if is_elsewhere(&error) {
                            pending.extend(&share.members);
                        }
                        fill_error(&mut answers, &share.members, error);
                    }
                }
            }
            if pending.is_empty() || placing == PLACINGS_MAX {
                break;
            }
            self.forget_map().await;
        }
        let answers = answers.into_iter();
        let answers: Vec<Answer> = answers
            .map(|answer| answer.expect("every tag was placed"))
            .collect();
        for error in answers.iter().filter_map(|answer| answer.as_ref().err()) {
            self.note(error).await;
        }
        answers
    }

    async fn run_share(
        &self,
        share: &Share,
        make: &impl Fn(usize, &RunDigest) -> Call,
    ) -> Result<Vec<Answer>, Error> {
        let link = self.link(&share.server).await?;
        let calls: Vec<Call> = share.members.iter().map(|at| make(*at, &link.run)).collect();
        let words: Vec<Words> = calls.iter().map(|call| call.words(Form::Hash)).collect();
        let mut frames = link.run_all(&words).await?;
        let missing: Vec<usize> = (0..frames.len()).filter(|at| is_missing(&frames[*at])).collect();
        if !missing.is_empty() {
            let words: Vec<Words> = missing.iter().map(|at| calls[*at].words(Form::Source)).collect();
            for (at, frame) in missing.iter().zip(link.run_all(&words).await?) {
                frames[*at] = frame;
            }
        }
        let check = |(call, frame): (&Call, Frame)| {
            link.connection.check(&[call.script().name.as_bytes()], &frame)?;
            Ok(frame)
        };
        Ok(calls.iter().zip(frames).map(check).collect())
    }

    /// Runs one plain command per slot. Slots that are being moved are left out.
    pub(crate) async fn run_slots(&self, commands: &[(u16, Words)]) -> Result<Vec<SlotReply>, Error> {
        let mut replies = Vec::with_capacity(commands.len());
        let mut pending: Vec<usize> = (0..commands.len()).collect();
        for placing in 1..=PLACINGS_MAX {
            let slots = pending.iter().map(|at| (commands[*at].0, *at));
            let (shares, lost) = self.place(slots.collect()).await?;
            if let Some((_, error)) = lost.into_iter().next() {
                self.note(&error).await;
                return Err(error);
            }
            let asked = shares.iter().map(|share| self.ask_share(share, commands));
            let asked = futures_util::future::join_all(asked).await;
            pending.clear();
            for (share, ended) in shares.iter().zip(asked) {
                let (now_ms, answers) = match self.noted(ended).await {
                    Err(error) if is_elsewhere(&error) && placing < PLACINGS_MAX => {
                        pending.extend(&share.members);
                        continue;
                    }
                    ended => ended?,
                };
                for (at, answer) in share.members.iter().zip(answers) {
                    let slot = commands[*at].0;
                    match self.noted(answer).await {
                        Ok(frame) => replies.push(SlotReply {
                            at: *at,
                            slot,
                            now_ms,
                            frame,
                        }),
                        Err(error) if is_elsewhere(&error) && placing < PLACINGS_MAX => {
                            pending.push(*at);
                        }
                        Err(error) if is_on_the_move(&error) => (),
                        Err(error) => return Err(error),
                    }
                }
            }
            if pending.is_empty() {
                break;
            }
        }
        Ok(replies)
    }

    /// Returns the node's time and its replies.
    async fn ask_share(&self, share: &Share, commands: &[(u16, Words)]) -> Result<(i64, Vec<Answer>), Error> {
        let link = self.link(&share.server).await?;
        let mut words = vec![vec![b"TIME".to_vec()]];
        words.extend(share.members.iter().map(|at| commands[*at].1.clone()));
        let mut frames = link.run_all(&words).await?.into_iter();
        let time = frames.next().expect("every request has a reply");
        link.connection.check(&[b"TIME"], &time)?;
        let now_ms = unix_ms(&time).ok_or_else(|| reply::unexpected("TIME", &time))?;
        let check = |frame| {
            link.connection.check(&[b"a listing"], &frame)?;
            Ok(frame)
        };
        Ok((now_ms, frames.map(check).collect()))
    }

    /// Passes a result on, after noting what its error says about the map of slots.
    async fn noted<T>(&self, result: Result<T, Error>) -> Result<T, Error> {
        if let Err(error) = &result {
            self.note(error).await;
        }
        result
    }

    /// Makes one round trip to each node that has any of the slots.
    pub(crate) async fn probe(&self, slots: &[u16]) -> Result<(), Error> {
        let map = self.map().await?;
        let mut servers: Vec<usize> = slots.iter().filter_map(|slot| map.owner(*slot)).collect();
        servers.sort_unstable();
        servers.dedup();
        let trips = servers.iter().map(|at| async {
            let link = self.link(&map.servers[*at]).await?;
            link.run_all(&[vec![b"PING".to_vec()]]).await
        });
        for trip in futures_util::future::join_all(trips).await {
            self.noted(trip).await?;
        }
        Ok(())
    }

    /// Groups members (a slot and its index) by node. Those whose slot has no owner are returned separately.
    async fn place(&self, members: Vec<(u16, usize)>) -> Result<(Vec<Share>, Vec<(usize, Error)>), Error> {
        let map = self.map().await?;
        let mut by_server: Vec<Vec<usize>> = vec![Vec::new(); map.servers.len()];
        let mut lost = Vec::new();
        for (slot, member) in members {
            match map.owner(slot) {
                Some(server) => by_server[server].push(member),
                None => {
                    let reason = format!("no node of the cluster serves slot {slot}");
                    lost.push((member, Error::NoPrimary { reason }));
                }
            }
        }
        let shares = by_server.into_iter().enumerate();
        let shares = shares.filter(|(_, members)| !members.is_empty());
        let share = |(at, members): (usize, Vec<usize>)| Share {
            server: map.servers[at].clone(),
            members,
        };
        Ok((shares.map(share).collect(), lost))
    }
}

/// The commands for one node.
struct Share {
    server: nagaya_redis_client::Endpoint,
    members: Vec<usize>,
}

/// Copies an error for several tags. The text of the copies includes the causes.
fn fill_error(answers: &mut [Option<Answer>], members: &[usize], error: Error) {
    let mut error = Some(error);
    for at in members {
        let own = error.take().unwrap_or_else(|| Error::NoPrimary {
            reason: "another call to the same node failed".into(),
        });
        answers[*at] = Some(Err(own));
    }
}

fn is_missing(frame: &Frame) -> bool {
    matches!(frame, Frame::Error(text) if text.starts_with(b"NOSCRIPT"))
}

fn code(error: &Error) -> Option<&str> {
    error.server_error().map(|error| error.code())
}

fn unix_ms(time: &Frame) -> Option<i64> {
    let [seconds, micros] = reply::items(time) else {
        return None;
    };
    Some(reply::int(seconds)? * 1000 + reply::int(micros)? / 1000)
}

/// Returns whether the call belongs to another server, or to another run of the same one.
fn is_elsewhere(error: &Error) -> bool {
    let is_placed_wrong = matches!(error, Error::RunChanged { .. } | Error::NotPrimary { .. });
    code(error) == Some("MOVED") || is_placed_wrong || matches!(error, Error::Closed { .. })
}

/// Returns whether a call was refused because its slot is being moved to another node.
pub(crate) fn is_on_the_move(error: &Error) -> bool {
    let Some(refusal) = error.server_error() else {
        return false;
    };
    // The last one is what a running script gets.
    matches!(refusal.code(), "ASK" | "TRYAGAIN" | "MOVED") || refusal.text().contains("non local key")
}

/// Returns whether an error concerns one tag only, so that others can go on.
pub(crate) fn is_of_the_tag(error: &Error) -> bool {
    is_on_the_move(error) || code(error).is_some_and(|code| matches!(code, "ERR" | "WRONGTYPE"))
}

/// Converts an error to that of the protocol.
pub(crate) fn hot_error(error: Error) -> HotError {
    if code(&error) == Some("OOM") {
        HotError::Full(Box::new(error))
    } else if error.is_retryable() || is_on_the_move(&error) {
        HotError::Unavailable(Box::new(error))
    } else {
        HotError::Failed(Box::new(error))
    }
}
