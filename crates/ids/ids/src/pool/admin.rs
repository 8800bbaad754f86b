//! Making a pool, changing it, and freeing a number of it.

use std::time::Duration;

use nagaya_redis_client::{Frame, Script, reply};

use super::{Error, Member, Pool, caller_now, millis, scripts, seconds, status, text_at};
use crate::random::random_hex;

/// How many numbers a pool may have. One script fills it, and must not block Redis for long.
const NUMBERS_MAX: u64 = 1 << 20;

/// How a pool is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NewPool {
    /// The longest time that any holder uses its number after a confirmed renewal. The settings of all
    /// holders must say the same.
    pub use_max: Duration,
    /// The caller's word that no process uses these numbers. Without it the pool is young: processes that
    /// held numbers of an earlier pool, which the server may have forgotten, are waited for.
    pub unused: bool,
}

/// What was known of a number that an operator freed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Freed {
    /// Empty if it was not held by one of ours.
    pub name: String,
    pub ceil_ms: u64,
}

impl Pool {
    /// Fills the pool with the numbers from `min` to `max`, both included, if it does not exist.
    pub async fn init(&self, min: u64, max: u64, new: NewPool) -> Result<(), Error> {
        check_range(min, max)?;
        let members = names(min..=max);
        let keys = [&self.keys.ids, &self.keys.stats, &self.keys.leases].map(|key| key.as_bytes());
        let (min, max) = (min.to_string(), max.to_string());
        let (bound_ms, born) = (millis(new.use_max), random_hex());
        let connection = self.connection().await?;
        let run = if new.unused {
            connection.run().await?.to_string()
        } else {
            String::new()
        };
        let args = [&min, &max, &members, &bound_ms, &born, &run].map(|arg| arg.as_bytes());
        let answer = connection
            .eval(&scripts::INIT, &keys, &args)
            .await
            .map_err(Error::from);
        let reply = self.noted(answer).await?;
        match status(&reply) {
            (filled, _) if filled == "filled" => Ok(()),
            (exists, rest) if exists == "exists" => Err(Error::AlreadyInitialized {
                namespace: self.namespace.clone(),
                min: text_at(rest, 0),
                max: text_at(rest, 1),
            }),
            _ => Err(reply::unexpected("init", &reply).into()),
        }
    }

    /// Widens the range; live holders keep their numbers.
    pub async fn grow(&self, min: u64, max: u64) -> Result<(), Error> {
        let (old_min, old_max) = self.range().await?;
        if min > old_min || max < old_max {
            return Err(Error::NotWider {
                min,
                max,
                old_min,
                old_max,
            });
        }
        self.resize((old_min, old_max), (min, max)).await
    }

    /// Sets the range and removes numbers outside of it. If one of them is reserved, nothing changes.
    pub async fn shrink(&self, min: u64, max: u64) -> Result<(), Error> {
        let old = self.range().await?;
        self.resize(old, (min, max)).await
    }

    /// Returns the range as the pool records it.
    pub async fn range(&self) -> Result<(u64, u64), Error> {
        let connection = self.connection().await?;
        let asked = connection.call(&["HMGET", &self.keys.stats, "min", "max"]).await;
        let reply = self.noted(asked.map_err(Error::from)).await?;
        match reply::items(&reply) {
            [min, max] => match (reply::unsigned(min), reply::unsigned(max)) {
                (Some(min), Some(max)) => Ok((min, max)),
                _ => Err(Error::NotInitialized {
                    namespace: self.namespace.clone(),
                }),
            },
            _ => Err(reply::unexpected("HMGET", &reply).into()),
        }
    }

    /// Changes the longest use time. Refused unless no number was reserved for `idle`, which must be the longest
    /// use time that any settings allow; the pool is young afterwards.
    pub async fn change_use_max(&self, use_max: Duration, idle: Duration) -> Result<(), Error> {
        let args = [millis(use_max), seconds(idle), random_hex(), caller_now()];
        let args = [&args[0], &args[1], &args[2], &args[3]].map(|arg| arg.as_bytes());
        let keys = [&self.keys.ids, &self.keys.leases].map(|key| key.as_bytes());
        let reply = self.eval(&scripts::REBOUND, &keys, &args).await?;
        let (word, rest) = status(&reply);
        match word.as_str() {
            "changed" => Ok(()),
            "missing" => Err(Error::NotInitialized {
                namespace: self.namespace.clone(),
            }),
            "used" => Err(Error::NotIdle {
                number: text_at(rest, 0).parse::<Member>()?.0,
                idle_in: text_at(rest, 1)
                    .parse()
                    .ok()
                    .and_then(|seconds| Duration::try_from_secs_f64(seconds).ok())
                    .unwrap_or(idle),
            }),
            _ => Err(reply::unexpected("rebound", &reply).into()),
        }
    }

    /// Ends the youth of a pool. The caller has known this birth for as long as any use can last.
    pub async fn ripen(&self, born: &str) -> Result<(), Error> {
        let keys = [self.keys.leases.as_bytes()];
        self.eval(&scripts::RIPE, &keys, &[born.as_bytes()])
            .await
            .map(drop)
    }

    /// Takes a number from its holder, which is refused at its next renewal. The next holder waits, and
    /// starts above its ceiling unless that is to be forgotten.
    pub async fn free(&self, number: u64, forget_ceiling: bool) -> Result<Freed, Error> {
        let (member, now) = (Member(number).to_string(), caller_now());
        let forget = if forget_ceiling { "1" } else { "0" };
        let args = [member.as_bytes(), forget.as_bytes(), now.as_bytes()];
        let keys = [&self.keys.ids, &self.keys.clients, &self.keys.leases].map(|key| key.as_bytes());
        let reply = self.eval(&scripts::FREE, &keys, &args).await?;
        let (word, rest) = status(&reply);
        match word.as_str() {
            "freed" => Ok(Freed {
                name: text_at(rest, 0),
                ceil_ms: text_at(rest, 1).parse().unwrap_or(0),
            }),
            "missing" => Err(Error::NoSuchNumber {
                namespace: self.namespace.clone(),
                number,
            }),
            _ => Err(reply::unexpected("free", &reply).into()),
        }
    }

    async fn eval(&self, script: &Script, keys: &[&[u8]], args: &[&[u8]]) -> Result<Frame, Error> {
        let connection = self.connection().await?;
        let answer = connection.eval(script, keys, args).await;
        self.noted(answer.map_err(Error::from)).await
    }

    async fn resize(&self, old: (u64, u64), new: (u64, u64)) -> Result<(), Error> {
        check_range(new.0, new.1)?;
        let outside = |range: (u64, u64), number: &u64| *number < range.0 || *number > range.1;
        let added = names((new.0..=new.1).filter(|number| outside(old, number)));
        let removed = names((old.0..=old.1).filter(|number| outside(new, number)));
        let numbers = [old.0, old.1, new.0, new.1].map(|number| number.to_string());
        let now = caller_now();
        let mut args: Vec<&[u8]> = numbers.iter().map(|number| number.as_bytes()).collect();
        args.extend([added.as_bytes(), removed.as_bytes(), now.as_bytes()]);
        let keys = &self.keys;
        let keys = [&keys.ids, &keys.clients, &keys.stats, &keys.leases].map(|key| key.as_bytes());
        let reply = self.eval(&scripts::RESIZE, &keys, &args).await?;
        let (word, rest) = status(&reply);
        match word.as_str() {
            "resized" => Ok(()),
            "missing" => Err(Error::NotInitialized {
                namespace: self.namespace.clone(),
            }),
            "changed" => Err(Error::RangeChanged {
                min: text_at(rest, 0),
                max: text_at(rest, 1),
            }),
            "used" => Err(Error::Used {
                number: text_at(rest, 0).parse::<Member>()?.0,
                owner: text_at(rest, 1),
            }),
            _ => Err(reply::unexpected("resize", &reply).into()),
        }
    }
}

fn check_range(min: u64, max: u64) -> Result<(), Error> {
    match max.checked_sub(min) {
        Some(more) if more < NUMBERS_MAX => Ok(()),
        _ => Err(Error::BadRange {
            min,
            max,
            limit: NUMBERS_MAX,
        }),
    }
}

fn names(numbers: impl Iterator<Item = u64>) -> String {
    let mut names = String::new();
    for number in numbers {
        if !names.is_empty() {
            names.push(' ');
        }
        names.push_str(&Member(number).to_string());
    }
    names
}
