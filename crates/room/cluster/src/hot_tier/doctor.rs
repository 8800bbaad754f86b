//! Checks the servers for settings that break the protocol or slow it down.

use nagaya_redis_client::{Endpoint, Error, Frame, reply};
use nagaya_tiering::cold::Finding;
use nagaya_tiering::error::HotError;

use super::batch::hot_error;
use super::hot::RedisHotTier;
use super::nodes::{Link, Nodes, Words};

/// Commands that empty a node without the knowledge of servers that hold leases.
const EMPTYING: [&str; 3] = ["FLUSHALL", "FLUSHDB", "SWAPDB"];
const OLDEST_VERSION: (u32, u32) = (6, 2);

impl RedisHotTier {
    /// Reads the settings of every node; returns what should be changed.
    pub fn examine(&self) -> Result<Vec<Finding>, HotError> {
        let mut findings = Vec::new();
        for part in self.parts()? {
            let found = self.block_on(self.nodes().examine(&part.server));
            findings.extend(found.map_err(hot_error)?);
        }
        let served: usize = self.parts()?.iter().map(|part| part.tier.slots().len()).sum();
        if served < self.slots().len() {
            findings.push(Finding {
                what: format!("no node serves {} of the slots", self.slots().len() - served),
                remedy: "bring the missing primaries or their replicas back: redis-cli --cluster check"
                    .into(),
            });
        }
        Ok(findings)
    }
}

impl Nodes {
    async fn examine(&self, server: &Endpoint) -> Result<Vec<Finding>, Error> {
        let link = self.link(server).await?;
        let info = |section: &str| words(&["INFO", section]);
        let questions = [
            info("server"),
            info("memory"),
            info("replication"),
            words(&["ACL", "WHOAMI"]),
        ];
        let answers = link.run_all(&questions).await?;
        let text = |at: usize| reply::text(&answers[at]).unwrap_or_default();
        let mut findings = Vec::new();
        findings.extend(old_version(server, &text(0)));
        findings.extend(evicting_policy(server, &text(1)));
        findings.extend(replication(server, &text(2)));
        if let Some(own) = reply::text(&answers[3]) {
            findings.extend(emptying_users(server, &link, own).await?);
        }
        Ok(findings)
    }
}

fn old_version(server: &Endpoint, info: &str) -> Option<Finding> {
    let version = reply::info_field(info, "redis_version")?;
    let mut numbers = version.split('.').map_while(|part| part.parse::<u32>().ok());
    let found = (numbers.next()?, numbers.next().unwrap_or(0));
    (found < OLDEST_VERSION).then(|| Finding {
        what: format!("{server} runs Redis {version}"),
        remedy: "room needs Redis 6.2 or newer, or Valkey".into(),
    })
}

fn evicting_policy(server: &Endpoint, info: &str) -> Option<Finding> {
    let policy = reply::info_field(info, "maxmemory_policy")?;
    (policy != "noeviction").then(|| Finding {
        what: format!("{server} has maxmemory-policy {policy}: it may drop keys that are not saved"),
        remedy: "CONFIG SET maxmemory-policy noeviction; room evicts what is saved".into(),
    })
}

fn replication(server: &Endpoint, info: &str) -> Option<Finding> {
    let replicas = reply::info_field(info, "connected_slaves")?.parse::<u32>().ok()?;
    if replicas == 0 {
        return Some(Finding {
            what: format!("{server} has no replica: if it is lost, so is what was not saved yet"),
            remedy: "add a replica, or accept losing up to max_staleness".into(),
        });
    }
    // The field is only present if the setting is on.
    let keeps_writing_alone = reply::info_field(info, "min_slaves_good_slaves").is_none();
    keeps_writing_alone.then(|| Finding {
        what: format!("{server} goes on taking writes when it is cut off from its replicas, and loses them"),
        remedy: "CONFIG SET min-replicas-to-write 1".into(),
    })
}

/// Returns the users that may empty the node; only our own if we may not list the others.
async fn emptying_users(server: &Endpoint, link: &Link, own: String) -> Result<Option<Finding>, Error> {
    let listed = link.run_all(&[words(&["ACL", "USERS"])]).await?;
    let mut users: Vec<String> = reply::items(&listed[0]).iter().filter_map(reply::text).collect();
    if users.is_empty() {
        users.push(own);
    }
    let mut able = Vec::new();
    for user in users {
        if may_empty(link, &user).await? {
            able.push(user);
        }
    }
    if able.is_empty() {
        return Ok(None);
    }
    let names = able.join(", ");
    Ok(Some(Finding {
        what: format!("{server} lets {names} run FLUSHALL, FLUSHDB or SWAPDB, which servers cannot notice"),
        remedy: format!("ACL SETUSER {} -flushall -flushdb -swapdb", able[0]),
    }))
}

async fn may_empty(link: &Link, user: &str) -> Result<bool, Error> {
    let questions = [
        words(&["ACL", "DRYRUN", user, "FLUSHALL"]),
        words(&["ACL", "DRYRUN", user, "FLUSHDB"]),
        words(&["ACL", "DRYRUN", user, "SWAPDB", "0", "1"]),
        words(&["ACL", "GETUSER", user]),
    ];
    let answers = link.run_all(&questions).await?;
    let (tries, rules) = answers.split_at(EMPTYING.len());
    let is_enabled = reply::pairs(&rules[0]).iter().any(|(name, flags)| {
        reply::bytes(name) == Some(b"flags")
            && reply::items(flags)
                .iter()
                .any(|flag| reply::bytes(flag) == Some(b"on"))
    });
    let can_ask = !reply::pairs(&rules[0]).is_empty();
    if can_ask && !is_enabled {
        return Ok(false);
    }
    if tries.iter().any(|answer| reply::bytes(answer) == Some(b"OK")) {
        return Ok(true);
    }
    // Before Redis 7.0 there is no dry run; the rules say nearly as much.
    let has_dry_run = tries.iter().any(|answer| matches!(answer, Frame::Bulk(_)));
    let rules = reply::pairs(&rules[0]).into_iter();
    let commands = rules
        .filter(|(name, _)| reply::bytes(name) == Some(b"commands"))
        .find_map(|(_, rules)| reply::text(rules));
    Ok(!has_dry_run && commands.is_some_and(|rules| EMPTYING.iter().any(|command| allows(&rules, command))))
}

/// Evaluates a user's rules for one of the commands that empty a node.
fn allows(rules: &str, command: &str) -> bool {
    const CATEGORIES: [&str; 4] = ["@all", "@dangerous", "@keyspace", "@write"];
    let speed = if command == "SWAPDB" { "@fast" } else { "@slow" };
    let mut is_allowed = false;
    for rule in rules.split_whitespace() {
        let name = &rule[1..];
        let concerns = CATEGORIES.contains(&name) || name == speed || name.eq_ignore_ascii_case(command);
        if concerns {
            is_allowed = rule.starts_with('+');
        }
    }
    is_allowed
}

fn words(words: &[&str]) -> Words {
    words.iter().map(|word| word.as_bytes().to_vec()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_are_followed_in_their_order() {
        let cases = [
            ("+@all", true),
            ("-@all +get", false),
            ("+@all -@dangerous", false),
            ("+@all -@dangerous +flushall", true),
            ("+@all -flushall", false),
            ("-@all +@keyspace", true),
        ];
        for (rules, allowed) in cases {
            assert_eq!(allows(rules, "FLUSHALL"), allowed, "{rules}");
        }
    }
}
