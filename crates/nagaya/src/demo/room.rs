//! Users visit, go cold, and come back.
//!
//! Each user is a tag with a profile and a count of visits. One loop visits, another takes users out of memory; a
//! user that is on the way out is left alone. The demo counts the visits itself, so a visit that was lost on the way
//! to disk and back is noticed.

use std::cell::RefCell;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::LocalBoxFuture;
use nagaya_redis_client::{Client as Redis, reply};
use serde_json::{Value, json};
use tokio::time::Instant;

use super::latency::Latencies;
use super::part::{End, Part, count};
use super::target::{Target, ask, erase};

/// Users, and the pauses between visits and between departures.
const USERS: usize = 40;
const VISIT_EVERY: Duration = Duration::from_millis(4);
const COOL_EVERY: Duration = Duration::from_millis(120);
/// One visit in this many goes to a cold user.
const COLD_VISIT_EVERY: u64 = 16;

pub(super) struct RoomPart {
    redis: Arc<Redis>,
    seen: RefCell<Seen>,
}

#[derive(Clone, Copy, Default, PartialEq, Eq)]
enum Place {
    #[default]
    Hot,
    /// A visit is in progress.
    Visited,
    /// On the way out of memory.
    Cooling,
    Cold,
}

#[derive(Clone, Default)]
struct User {
    place: Place,
    visits: i64,
    went_cold: u64,
}

#[derive(Default)]
struct Seen {
    users: Vec<User>,
    visits: u64,
    went_cold: u64,
    hot: Latencies,
    back: Latencies,
    /// Visits that the room did not count as we do.
    wrong: u64,
    /// Why no user can be evicted here.
    stays: Option<String>,
    dice: Dice,
}

/// A small pseudo-random generator.
struct Dice(u64);

impl Default for Dice {
    fn default() -> Dice {
        Dice(u64::from(std::process::id()) | 1)
    }
}

impl Dice {
    /// A number below `sides`.
    fn roll(&mut self, sides: usize) -> usize {
        // Xorshift; the lowest bits are its weakest.
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from((self.0 >> 16) % sides as u64).unwrap_or(0)
    }
}

impl Seen {
    /// Chooses the next user: mostly one of the first, sometimes a cold one.
    fn next_visited(&mut self) -> usize {
        if self.visits.is_multiple_of(COLD_VISIT_EVERY)
            && let Some(user) = self.someone(Place::Cold)
        {
            return user;
        }
        let reach = self.dice.roll(USERS) + 1;
        self.dice.roll(reach)
    }

    fn someone(&mut self, place: Place) -> Option<usize> {
        let from = self.dice.roll(USERS);
        let mut all = (0..USERS).map(|step| (from + step) % USERS);
        all.find(|user| self.users[*user].place == place)
    }

    fn coldest(&self) -> Option<(usize, &User)> {
        let users = self.users.iter().enumerate();
        users
            .max_by_key(|(_, user)| user.went_cold)
            .filter(|(_, user)| user.went_cold > 0)
    }
}

fn tag(user: usize) -> String {
    format!("demo:user:{user}")
}

fn profile(user: usize) -> String {
    format!("{{{}}}:profile", tag(user))
}

fn visits(user: usize) -> String {
    format!("{{{}}}:visits", tag(user))
}

impl RoomPart {
    pub(super) fn new(target: &Target) -> RoomPart {
        let seen = Seen {
            users: vec![User::default(); USERS],
            ..Seen::default()
        };
        RoomPart {
            redis: target.redis(),
            seen: RefCell::new(seen),
        }
    }

    async fn visit_until(&self, end: &End) -> anyhow::Result<()> {
        while !end.time_is_up.is_cancelled() {
            let user = self.seen.borrow_mut().next_visited();
            if self.seen.borrow().users[user].place != Place::Cooling {
                self.visit(user).await?;
            }
            tokio::time::sleep(VISIT_EVERY).await;
        }
        Ok(())
    }

    async fn visit(&self, user: usize) -> anyhow::Result<()> {
        let was_cold = {
            let seen = &mut self.seen.borrow_mut().users[user];
            std::mem::replace(&mut seen.place, Place::Visited) == Place::Cold
        };
        let began = Instant::now();
        let known = ask(&self.redis, &["HGET", &profile(user), "name"]).await?;
        let took = began.elapsed();
        let counted = ask(&self.redis, &["INCR", &visits(user)]).await?;
        let name = format!("user {user}");
        let number = self.seen.borrow().visits.to_string();
        let written = ["HSET", &profile(user), "name", &name, "visit", &number];
        ask(&self.redis, &written).await?;

        let mut seen = self.seen.borrow_mut();
        let before = seen.users[user].visits;
        let is_right = reply::int(&counted) == Some(before + 1)
            && (before == 0 || reply::text(&known).as_deref() == Some(&name));
        seen.users[user].place = Place::Hot;
        seen.users[user].visits = reply::int(&counted).unwrap_or(before);
        seen.wrong += u64::from(!is_right);
        seen.visits += 1;
        if was_cold {
            seen.back.add(took)
        } else {
            seen.hot.add(took)
        }
        Ok(())
    }

    async fn cool_until(&self, end: &End) -> anyhow::Result<()> {
        loop {
            tokio::select! {
                () = end.time_is_up.cancelled() => return Ok(()),
                () = tokio::time::sleep(COOL_EVERY) => (),
            }
            let user = {
                let mut seen = self.seen.borrow_mut();
                let user = seen
                    .someone(Place::Hot)
                    .filter(|user| seen.users[*user].visits > 0);
                let Some(user) = user else {
                    continue;
                };
                seen.users[user].place = Place::Cooling;
                user
            };
            let gone = ask(&self.redis, &["ROOM.EVICT", &tag(user)]).await;
            let mut seen = self.seen.borrow_mut();
            match gone {
                // A visit that was under way keeps its user in memory.
                Ok(keys) if reply::int(&keys) == Some(0) => seen.users[user].place = Place::Hot,
                Ok(_) => {
                    seen.users[user].place = Place::Cold;
                    seen.users[user].went_cold += 1;
                    seen.went_cold += 1;
                }
                Err(error) => {
                    seen.users[user].place = Place::Hot;
                    seen.stays = Some(error.to_string());
                    return Ok(());
                }
            }
        }
    }
}

impl Part for RoomPart {
    fn name(&self) -> &'static str {
        "room"
    }

    fn run<'a>(&'a self, end: &'a End) -> LocalBoxFuture<'a, anyhow::Result<()>> {
        async move { tokio::try_join!(self.visit_until(end), self.cool_until(end)).map(drop) }.boxed_local()
    }

    fn clean(&self) -> LocalBoxFuture<'_, anyhow::Result<()>> {
        async move {
            for user in 0..USERS {
                erase(&self.redis, &tag(user), &[profile(user), visits(user)]).await?;
            }
            Ok(())
        }
        .boxed_local()
    }

    fn line(&self) -> String {
        let seen = self.seen.borrow();
        let cold = seen.users.iter().filter(|user| user.place == Place::Cold).count();
        format!(
            "{} visits, {cold} of {USERS} users cold; back in {}, hot in {}",
            seen.visits,
            seen.back.usual(),
            seen.hot.usual()
        )
    }

    fn sentence(&self) -> String {
        let seen = self.seen.borrow();
        let lost = match seen.wrong {
            0 => "no visit was lost".to_owned(),
            wrong => format!("{wrong} VISITS WERE NOT COUNTED RIGHT"),
        };
        let visits = format!("{} of {USERS} users, {lost}", count(seen.visits, "visit"));
        let Some((user, coldest)) = seen.coldest() else {
            let why = seen
                .stays
                .as_ref()
                .map_or(String::new(), |why| format!(": {why}"));
            return format!("{visits}; nobody went cold{why}");
        };
        let back = match seen.back.percentile_ms(50) {
            Some(_) => format!(
                "came back in {} p50 where memory takes {}",
                seen.back.usual(),
                seen.hot.usual()
            ),
            None => "did not come back".to_owned(),
        };
        format!(
            "{} went cold {} and {back}; all together went cold {}; {visits}",
            tag(user),
            count(coldest.went_cold, "time"),
            count(seen.went_cold, "time"),
        )
    }

    fn figures(&self) -> Value {
        let seen = self.seen.borrow();
        json!({
            "visits": seen.visits, "went_cold": seen.went_cold, "wrong": seen.wrong, "users": USERS,
            "came_back_ms": {"p50": seen.back.percentile_ms(50), "p99": seen.back.percentile_ms(99)},
            "hot_ms": {"p50": seen.hot.percentile_ms(50), "p99": seen.hot.percentile_ms(99)},
            "stays_in_memory": seen.stays,
        })
    }

    fn is_wrong(&self) -> bool {
        self.seen.borrow().wrong > 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_users_are_visited_more_often_and_cold_ones_now_and_then() {
        let mut seen = Seen {
            users: vec![User::default(); USERS],
            visits: 1,
            ..Seen::default()
        };
        let visited: Vec<usize> = (0..4_000).map(|_| seen.next_visited()).collect();
        let of = |user: usize| visited.iter().filter(|one| **one == user).count();
        assert!(of(0) > 4 * of(USERS / 2), "{} and {}", of(0), of(USERS / 2));
        seen.users[33].place = Place::Cold;
        seen.visits = COLD_VISIT_EVERY;
        assert_eq!(seen.next_visited(), 33);
    }
}
