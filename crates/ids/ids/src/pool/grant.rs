//! Taking, renewing and giving back a number.

use std::time::Duration;

use nagaya_redis_client::{Confirmed, Connection, Error as RedisError, Frame, Need, Run, Script, reply};

use super::{Error, Member, Pool, caller_now, millis, scripts, seconds, status, text_at};

/// The caller's identity.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HolderId {
    /// yaraus's client id, shown in lists.
    pub owner: String,
    /// The instance's name, by which it gets its number back.
    pub name: String,
    /// Random, and new for every process.
    pub token: String,
}

/// What a holder asks for.
#[derive(Clone, Debug)]
pub struct GetCall {
    /// Ids will carry no later time, in Unix milliseconds, until the first renewal.
    pub ceil_ms: u64,
    /// How long the number stays away from others.
    pub reserve: Duration,
    /// The token of an earlier process of this name that is known to have ended.
    pub proof: Option<String>,
    /// The clock that the caller's ids carry, in Unix milliseconds.
    pub now_ms: u64,
    /// A number whose ceiling is further ahead of that clock is passed over.
    pub ahead: Duration,
    /// The longest use time in the pool, as the caller's settings have it.
    pub use_max: Duration,
}

/// A number given to a holder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Grant {
    pub number: u64,
    pub fence: u64,
    /// Ids may have been issued up to this time, in Unix milliseconds.
    pub floor_ms: u64,
    /// Whether no other process can still be using the number.
    pub at_once: bool,
    /// Whether the number was last held by the process whose token was given as proof.
    pub proved: bool,
    /// The run of the last confirmed answer: of the grant, or of a renewal since.
    pub run: Run,
    /// The birth of a young pool: holders of an earlier one, with other settings, may be using the number.
    pub young: Option<String>,
}

/// What the releaser knows of the times that were used with a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Released {
    /// The last time really used: anybody may begin above it at once.
    Last { ms: u64 },
    /// No later time was used, as far as the releaser's clock can say: strangers wait.
    UpTo { ms: u64 },
}

/// The outcome of asking for a number.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum GetAnswer {
    Granted(Grant),
    /// All numbers are reserved; the first comes free after this time.
    NoneFree {
        next_in: Duration,
    },
    /// Every number that is free was used with times too far ahead of the caller's clock; the lowest of
    /// their ceilings.
    Late {
        number: u64,
        ceil_ms: u64,
    },
}

/// The holder's phase when it sent a renewal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Phase {
    /// Its delay is not over.
    Waiting,
    /// Its delay is over: this renewal opens the window.
    DelayOver,
    /// Its window is unbroken.
    InUse,
    /// Its window was open and has ended.
    Lapsed,
}

impl Phase {
    fn word(self) -> &'static str {
        match self {
            Phase::Waiting => "waiting",
            Phase::DelayOver => "delay_over",
            Phase::InUse => "in_use",
            Phase::Lapsed => "lapsed",
        }
    }
}

/// Why the pool does not accept the caller as the holder.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Refusal {
    /// The pool or the number in it is gone.
    Missing,
    /// Another process holds it, under the same name or another.
    Robbed { same_name: bool },
    /// The server's run changed and the window was not open, so the record proves nothing.
    RunChanged,
    /// The pool's longest use time is not the one of the caller's settings any more.
    Bound,
}

/// The outcome of a renewal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Extension {
    Extended {
        /// The record was last written, or the last answer given, under another run.
        run_changed: bool,
        ceil_ms: u64,
        run: Run,
        /// Numbers of the pool that nobody has reserved.
        free: u64,
    },
    Refused(Refusal),
}

impl Pool {
    /// Draws a client id in yaraus's form: host, time and a counter of the pool.
    pub async fn register(&self) -> Result<String, Error> {
        let connection = self.connection().await?;
        let asked = connection
            .call(&["HINCRBY", &self.keys.stats, "client_id_count", "1"])
            .await;
        let reply = self.noted(asked.map_err(Error::from)).await?;
        let count = reply::int(&reply).ok_or_else(|| reply::unexpected("HINCRBY", &reply))?;
        let host = hostname::get().unwrap_or_default();
        let now = std::time::SystemTime::now()
            .duration_since(std::time::UNIX_EPOCH)
            .unwrap_or_default();
        let (secs, millis) = (now.as_secs(), now.subsec_millis());
        Ok(format!("{}-{secs}.{millis:03}-{count}", host.to_string_lossy()))
    }

    /// Asks for a number. With too few replicas a grant is given back, and the error says so.
    ///
    /// Not cancel safe: a dropped call may have taken a number, which then stays reserved; the same
    /// token gets it again.
    pub async fn get(&self, id: &HolderId, call: &GetCall, need: Need) -> Result<GetAnswer, Error> {
        let connection = self.connection().await?;
        let run = connection.run().await?.to_string();
        let (ceil_ms, reserve, now) = (call.ceil_ms.to_string(), seconds(call.reserve), caller_now());
        let proof = call.proof.as_deref().unwrap_or_default();
        let (now_ms, ahead, bound) = (call.now_ms.to_string(), millis(call.ahead), millis(call.use_max));
        let args = [
            &id.owner, &id.name, &id.token, &run, &ceil_ms, &reserve, proof, &now, &now_ms, &ahead, &bound,
        ]
        .map(str::as_bytes);
        let answer = self.write(&connection, &scripts::GET, &args, need).await;
        let confirmed = match answer {
            Ok(confirmed) => confirmed,
            Err(Error::Redis(error @ RedisError::TooFewReplicas { .. })) => {
                return Err(self.give_back(&connection, id, error).await);
            }
            Err(error) => return Err(error),
        };
        self.read_get(&confirmed, call)
    }

    fn read_get(&self, confirmed: &Confirmed, call: &GetCall) -> Result<GetAnswer, Error> {
        let (word, rest) = status(&confirmed.reply);
        let unexpected = || Error::from(reply::unexpected("get", &confirmed.reply));
        match (word.as_str(), rest) {
            ("missing", _) => Err(Error::NotInitialized {
                namespace: self.namespace.clone(),
            }),
            ("none", [next_in, clock]) => {
                warn_if_callers_clock(clock);
                let next_in = reply::text(next_in).and_then(|text| text.parse().ok());
                let next_in = next_in.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
                let next_in = next_in.ok_or_else(unexpected)?;
                Ok(GetAnswer::NoneFree { next_in })
            }
            ("bound", [bound_ms]) => Err(Error::Bound {
                namespace: self.namespace.clone(),
                pool: Duration::from_millis(reply::unsigned(bound_ms).ok_or_else(unexpected)?),
                ours: call.use_max,
            }),
            ("late", [member, ceil_ms, clock]) => {
                warn_if_callers_clock(clock);
                Ok(GetAnswer::Late {
                    number: reply::text(member).ok_or_else(unexpected)?.parse::<Member>()?.0,
                    ceil_ms: reply::unsigned(ceil_ms).ok_or_else(unexpected)?,
                })
            }
            ("granted", [member, fence, floor, at_once, proved, clock, young]) => {
                warn_if_callers_clock(clock);
                let number = reply::text(member).ok_or_else(unexpected)?.parse::<Member>()?.0;
                Ok(GetAnswer::Granted(Grant {
                    number,
                    fence: reply::unsigned(fence).ok_or_else(unexpected)?,
                    floor_ms: reply::unsigned(floor).ok_or_else(unexpected)?,
                    at_once: reply::int(at_once) == Some(1),
                    proved: reply::int(proved) == Some(1),
                    run: confirmed.run.clone(),
                    young: reply::text(young).filter(|born| !born.is_empty()),
                }))
            }
            _ => Err(unexpected()),
        }
    }

    /// Renews a number.
    pub async fn extend(
        &self,
        id: &HolderId,
        held: &Grant,
        phase: Phase,
        call: &GetCall,
        need: Need,
    ) -> Result<Extension, Error> {
        let connection = self.connection().await?;
        let (run, seen_run) = (connection.run().await?.to_string(), held.run.to_string());
        let (member, fence) = (Member(held.number).to_string(), held.fence.to_string());
        let (ceil_ms, reserve, now) = (call.ceil_ms.to_string(), seconds(call.reserve), caller_now());
        let bound = millis(call.use_max);
        let args = [
            &member,
            &id.owner,
            &id.token,
            &fence,
            &run,
            &seen_run,
            &ceil_ms,
            &reserve,
            phase.word(),
            &now,
            &bound,
        ];
        let args = args.map(str::as_bytes);
        let confirmed = self.write(&connection, &scripts::EXTEND, &args, need).await?;
        let (word, rest) = status(&confirmed.reply);
        let unexpected = || Error::from(reply::unexpected("extend", &confirmed.reply));
        match (word.as_str(), rest) {
            ("extended", [changed, ceil_ms, clock, free]) => {
                warn_if_callers_clock(clock);
                Ok(Extension::Extended {
                    run_changed: reply::int(changed) == Some(1),
                    ceil_ms: reply::unsigned(ceil_ms).ok_or_else(unexpected)?,
                    run: confirmed.run,
                    free: reply::unsigned(free).ok_or_else(unexpected)?,
                })
            }
            ("refused", rest) => Ok(Extension::Refused(refusal(rest, id))),
            _ => Err(unexpected()),
        }
    }

    /// Gives a number back, after its last use. A refusal means that another holder has it,
    /// and changes nothing.
    pub async fn release(
        &self,
        id: &HolderId,
        held: &Grant,
        released: Released,
    ) -> Result<Result<(), Refusal>, Error> {
        let connection = self.connection().await?;
        let answer = self
            .release_on(&connection, id, held.number, held.fence, released)
            .await;
        self.noted(answer).await
    }

    async fn release_on(
        &self,
        connection: &Connection,
        id: &HolderId,
        number: u64,
        fence: u64,
        released: Released,
    ) -> Result<Result<(), Refusal>, Error> {
        let run = connection.run().await?.to_string();
        let (member, fence) = (Member(number).to_string(), fence.to_string());
        let (ceil_ms, exact) = match released {
            Released::Last { ms } => (ms.to_string(), "1"),
            Released::UpTo { ms } => (ms.to_string(), "0"),
        };
        let now = caller_now();
        let args = [&member, &id.owner, &id.token, &fence, &run, &ceil_ms, &now, exact].map(str::as_bytes);
        let keys = [&self.keys.ids, &self.keys.clients, &self.keys.leases].map(|key| key.as_bytes());
        let reply = connection.eval(&scripts::RELEASE, &keys, &args).await?;
        let (word, rest) = status(&reply);
        match word.as_str() {
            "released" => Ok(Ok(())),
            "refused" => Ok(Err(refusal(rest, id))),
            _ => Err(reply::unexpected("release", &reply).into()),
        }
    }

    /// Gives back what a lost answer may have granted to this token.
    pub async fn abandon(&self, id: &HolderId) -> Result<(), Error> {
        let connection = self.connection().await?;
        match self.find_by_token(&connection, id).await? {
            Some((number, fence, ms)) => self
                .release_on(&connection, id, number, fence, Released::UpTo { ms })
                .await
                .map(drop),
            None => Ok(()),
        }
    }

    /// Undoes a grant that too few replicas have. The script's answer was not kept, so the record
    /// of the token says what was granted.
    async fn give_back(&self, connection: &Connection, id: &HolderId, source: RedisError) -> Error {
        match self.find_by_token(connection, id).await {
            Ok(Some((number, fence, ms))) => {
                let released = Released::UpTo { ms };
                match self.release_on(connection, id, number, fence, released).await {
                    Ok(_) => Error::GivenBack { number, source },
                    Err(error) => {
                        tracing::warn!(number, error = error.chain(), "unconfirmed grant not given back");
                        Error::Redis(source)
                    }
                }
            }
            Ok(None) => Error::Redis(source),
            Err(error) => {
                tracing::warn!(error = error.chain(), "unconfirmed grant not given back");
                Error::Redis(source)
            }
        }
    }

    async fn find_by_token(
        &self,
        connection: &Connection,
        id: &HolderId,
    ) -> Result<Option<(u64, u64, u64)>, Error> {
        let token = format!("token:{}", id.token);
        let reply = connection.call(&["HGET", &self.keys.leases, &token]).await?;
        let Some(member) = reply::text(&reply) else {
            return Ok(None);
        };
        let (fence, ceil) = (format!("{member}.fence"), format!("{member}.ceil"));
        let reply = connection
            .call(&["HMGET", &self.keys.leases, &fence, &ceil])
            .await?;
        let number = member.parse::<Member>()?.0;
        Ok(match reply::items(&reply) {
            [fence, ceil] => reply::unsigned(fence)
                .zip(reply::unsigned(ceil))
                .map(|(fence, ceil)| (number, fence, ceil)),
            _ => None,
        })
    }

    async fn write(
        &self,
        connection: &Connection,
        script: &Script,
        args: &[&[u8]],
        need: Need,
    ) -> Result<Confirmed, Error> {
        let keys = &self.keys;
        let keys = [&keys.ids, &keys.clients, &keys.stats, &keys.leases].map(|key| key.as_bytes());
        let answer = connection.write_and_wait(script, &keys, args, need).await;
        self.noted(answer.map_err(Error::from)).await
    }
}

fn refusal(rest: &[Frame], id: &HolderId) -> Refusal {
    match text_at(rest, 0).as_str() {
        "missing" => Refusal::Missing,
        "run" => Refusal::RunChanged,
        "bound" => Refusal::Bound,
        _ => Refusal::Robbed {
            same_name: text_at(rest, 1) == id.name,
        },
    }
}

fn warn_if_callers_clock(clock: &Frame) {
    static WARNED: std::sync::Once = std::sync::Once::new();
    if reply::bytes(clock) == Some(b"caller") {
        WARNED.call_once(|| {
            tracing::warn!(
                "redis before 3.2 lets scripts not read its clock: reservations follow this machine's"
            );
        });
    }
}
