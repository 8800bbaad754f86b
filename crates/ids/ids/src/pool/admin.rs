//! Making a pool and changing its range.

use nagaya_redis_client::reply;

use super::{Error, Member, Pool, caller_now, scripts, status, text_at};

/// How many numbers a pool may have. One script fills it, and must not block Redis for long.
const NUMBERS_MAX: u64 = 1 << 20;

impl Pool {
    /// Fills the pool with the numbers from `min` to `max`, both included, if it does not exist.
    pub async fn init(&self, min: u64, max: u64) -> Result<(), Error> {
        check_range(min, max)?;
        let members = names(min..=max);
        let keys = [self.keys.ids.as_bytes(), self.keys.stats.as_bytes()];
        let (min, max) = (min.to_string(), max.to_string());
        let args = [min.as_bytes(), max.as_bytes(), members.as_bytes()];
        let connection = self.connection().await?;
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

    async fn resize(&self, old: (u64, u64), new: (u64, u64)) -> Result<(), Error> {
        check_range(new.0, new.1)?;
        let outside = |range: (u64, u64), number: &u64| *number < range.0 || *number > range.1;
        let added = names((new.0..=new.1).filter(|number| outside(old, number)));
        let removed = names((old.0..=old.1).filter(|number| outside(new, number)));
        let numbers = [old.0, old.1, new.0, new.1].map(|number| number.to_string());
        let now = caller_now();
        let mut args: Vec<&[u8]> = numbers.iter().map(|number| number.as_bytes()).collect();
        args.extend([added.as_bytes(), removed.as_bytes(), now.as_bytes()]);
        let keys = [&self.keys.ids, &self.keys.clients, &self.keys.stats].map(|key| key.as_bytes());
        let connection = self.connection().await?;
        let answer = connection
            .eval(&scripts::RESIZE, &keys, &args)
            .await
            .map_err(Error::from);
        let reply = self.noted(answer).await?;
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
