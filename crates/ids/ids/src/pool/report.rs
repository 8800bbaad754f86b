//! The contents of a pool, for people and for programs.

use std::collections::{BTreeMap, HashMap};

use comfy_table::{Table, presets};
use nagaya_redis_client::{Frame, reply};
use serde_json::{Value, json};

use super::{Error, Member, Pool};

/// The counters that yaraus keeps, as their hash names them and as its JSON does.
const COUNTERS: &[(&str, &str)] = &[
    ("client_id_count", "client_id_count"),
    ("get_id_count", "client_get_id_count"),
    ("get_id_success", "client_get_id_success"),
    ("get_id_no_available_id", "get_id_no_available_id"),
    ("extend_ttl_count", "extend_ttl_count"),
    ("extend_ttl_success", "extend_ttl_success"),
    ("extend_ttl_ownership_error", "extend_ttl_ownership_error"),
    ("extend_ttl_expire_warning", "extend_ttl_expire_warning"),
];

/// Everything that is stored about a pool, at one moment of the server's clock.
#[derive(Clone, Debug, PartialEq)]
pub struct Report {
    pub min: Option<u64>,
    pub max: Option<u64>,
    pub counters: BTreeMap<String, u64>,
    /// In the order in which numbers are given out.
    pub entries: Vec<Entry>,
}

/// One number.
#[derive(Clone, Debug, PartialEq)]
pub struct Entry {
    pub number: u64,
    /// yaraus's client id; empty if the number was never held or was released.
    pub owner: String,
    /// The end of the reservation in Unix seconds; 0 if it was never used.
    pub expire_at: f64,
    /// Seconds until then, negative when it is past.
    pub ttl: f64,
    /// Absent for holders that keep yaraus's rules only.
    pub name: Option<String>,
    pub fence: Option<u64>,
}

impl Entry {
    /// Returns whether the number is reserved.
    pub fn using(&self) -> bool {
        self.ttl >= 0.0
    }
}

/// A summary of a pool. Times are seconds.
#[derive(Clone, Debug, PartialEq)]
pub struct Stats {
    pub counters: BTreeMap<String, u64>,
    pub min: Option<u64>,
    pub max: Option<u64>,
    pub using_ids: usize,
    pub unusing_ids: usize,
    /// The longest, the middle and the shortest time left of the reserved numbers; 0 without any.
    pub using_ttl_max: f64,
    pub using_ttl_mid: f64,
    pub using_ttl_min: f64,
}

impl Pool {
    /// Reads the whole pool in one batch.
    pub async fn report(&self) -> Result<Report, Error> {
        let connection = self.connection().await?;
        let (ids, stats) = (self.keys.ids.as_bytes(), self.keys.stats.as_bytes());
        let (clients, leases) = (self.keys.clients.as_bytes(), self.keys.leases.as_bytes());
        let commands: [&[&[u8]]; 5] = [
            &[b"TIME"],
            &[b"ZRANGE", ids, b"0", b"-1", b"WITHSCORES"],
            &[b"HGETALL", clients],
            &[b"HGETALL", stats],
            &[b"HGETALL", leases],
        ];
        let replies = connection
            .pipeline_within(&commands, connection.reply_limit())
            .await;
        let replies = self.noted(replies.map_err(Error::from)).await?;
        for (args, reply) in commands.iter().zip(&replies) {
            connection.check(args, reply)?;
        }
        let now = server_time(&replies[0]).ok_or_else(|| reply::unexpected("TIME", &replies[0]))?;
        let (clients, stats, leases) = (texts(&replies[2]), texts(&replies[3]), texts(&replies[4]));
        let mut entries = Vec::new();
        for (member, score) in reply::pairs(&replies[1]) {
            let name = reply::text(member).unwrap_or_default();
            let score: f64 = reply::text(score)
                .and_then(|text| text.parse().ok())
                .unwrap_or(0.0);
            let of_lease = |field: &str| leases.get(&format!("{name}.{field}"));
            let owner = clients.get(&name).cloned().unwrap_or_default();
            // The record is the owner's only if an original yaraus client did not take the number.
            let ours = !owner.is_empty() && of_lease("owner") == Some(&owner);
            entries.push(Entry {
                number: name.parse::<Member>()?.0,
                expire_at: score,
                ttl: score - now,
                name: of_lease("name").filter(|_| ours).cloned(),
                fence: of_lease("fence")
                    .filter(|_| ours)
                    .and_then(|text| text.parse().ok()),
                owner,
            });
        }
        let number = |name: &str| stats.get(name).and_then(|text| text.parse().ok());
        let counters = COUNTERS
            .iter()
            .map(|(name, _)| ((*name).to_owned(), number(name).unwrap_or(0)));
        Ok(Report {
            min: number("min"),
            max: number("max"),
            counters: counters.collect(),
            entries,
        })
    }
}

impl Report {
    pub fn stats(&self) -> Stats {
        let mut left: Vec<f64> = self
            .entries
            .iter()
            .filter(|entry| entry.using())
            .map(|entry| entry.ttl)
            .collect();
        left.sort_by(f64::total_cmp);
        let at = |index: usize| left.get(index).copied().unwrap_or(0.0);
        Stats {
            counters: self.counters.clone(),
            min: self.min,
            max: self.max,
            using_ids: left.len(),
            unusing_ids: self.entries.len() - left.len(),
            using_ttl_max: at(left.len().wrapping_sub(1)),
            using_ttl_mid: at(left.len() / 2),
            using_ttl_min: at(0),
        }
    }

    /// Returns the list with yaraus's names, and ours beside them, in the order of the numbers.
    pub fn to_json(&self) -> Value {
        let mut entries: Vec<&Entry> = self.entries.iter().collect();
        entries.sort_by_key(|entry| entry.number);
        let to_json = |entry: &&Entry| {
            json!({
                "client_id": entry.owner,
                "id": entry.number,
                "expire_at": rfc3339(entry.expire_at),
                "using": entry.using(),
                "ttl": entry.ttl,
                "name": entry.name,
                "fence": entry.fence,
            })
        };
        entries.iter().map(to_json).collect()
    }
}

impl Stats {
    /// Returns the summary with yaraus's names, its swapped maximum and minimum corrected.
    pub fn to_json(&self) -> Value {
        let mut all = serde_json::Map::new();
        for (name, shown) in COUNTERS {
            let count = self.counters.get(*name).copied().unwrap_or(0);
            all.insert((*shown).to_owned(), count.into());
        }
        all.insert("min".into(), self.min.into());
        all.insert("max".into(), self.max.into());
        all.insert("using_ids".into(), self.using_ids.into());
        all.insert("unusing_ids".into(), self.unusing_ids.into());
        all.insert("using_ttl_max".into(), self.using_ttl_max.into());
        all.insert("using_ttl_mid".into(), self.using_ttl_mid.into());
        all.insert("using_ttl_min".into(), self.using_ttl_min.into());
        Value::Object(all)
    }
}

/// Returns the reserved numbers, or all of them, as a table.
pub fn list_table(report: &Report, all: bool) -> String {
    let mut table = Table::new();
    table.load_style(presets::NOTHING);
    table.set_header(["NUMBER", "USING", "TTL", "FENCE", "NAME", "CLIENT"]);
    let mut entries: Vec<&Entry> = report
        .entries
        .iter()
        .filter(|entry| all || entry.using())
        .collect();
    entries.sort_by_key(|entry| entry.number);
    for entry in entries {
        table.add_row([
            entry.number.to_string(),
            if entry.using() { "yes" } else { "no" }.to_owned(),
            if entry.using() {
                format!("{:.1}s", entry.ttl)
            } else {
                "-".to_owned()
            },
            entry
                .fence
                .map_or_else(|| "-".to_owned(), |fence| fence.to_string()),
            entry.name.clone().unwrap_or_else(|| "-".to_owned()),
            if entry.owner.is_empty() {
                "-".to_owned()
            } else {
                entry.owner.clone()
            },
        ]);
    }
    table.trim_fmt()
}

/// Returns the counters and times as a table.
pub fn stats_table(stats: &Stats) -> String {
    let mut table = Table::new();
    table.load_style(presets::NOTHING);
    let range = |number: Option<u64>| number.map_or_else(|| "?".to_owned(), |number| number.to_string());
    table.add_row([
        "range".to_owned(),
        format!("{} to {}", range(stats.min), range(stats.max)),
    ]);
    table.add_row(["in use".to_owned(), stats.using_ids.to_string()]);
    table.add_row(["free".to_owned(), stats.unusing_ids.to_string()]);
    let times =
        [stats.using_ttl_max, stats.using_ttl_mid, stats.using_ttl_min].map(|ttl| format!("{ttl:.1}s"));
    table.add_row(["ttl max, mid, min".to_owned(), times.join(", ")]);
    for (name, _) in COUNTERS {
        let count = stats.counters.get(*name).copied().unwrap_or(0);
        table.add_row([name.replace('_', " "), count.to_string()]);
    }
    table.trim_fmt()
}

fn server_time(reply: &Frame) -> Option<f64> {
    let [secs, micros] = reply::items(reply) else {
        return None;
    };
    let parse = |frame| reply::text(frame).and_then(|text| text.parse::<f64>().ok());
    Some(parse(secs)? + parse(micros)? / 1e6)
}

fn texts(reply: &Frame) -> HashMap<String, String> {
    let pairs = reply::pairs(reply).into_iter();
    pairs
        .filter_map(|(name, value)| Some((reply::text(name)?, reply::text(value)?)))
        .collect()
}

/// Returns a time in Unix seconds the way Go writes one into JSON, in UTC.
fn rfc3339(unix_s: f64) -> String {
    let millis = (unix_s.max(0.0) * 1000.0).round();
    let (days, ms_of_day) = ((millis / 86_400_000.0).floor(), millis % 86_400_000.0);
    // Scores are present-day times, so both values fit their types.
    let (year, month, day) = date_of(days as i64);
    let ms = ms_of_day as u64;
    let (hour, minute, second) = (ms / 3_600_000, ms / 60_000 % 60, ms / 1000 % 60);
    format!(
        "{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{:03}Z",
        ms % 1000
    )
}

/// Returns the Gregorian date of a day counted from 1970-01-01, by eras of 400 years that begin in March.
fn date_of(days: i64) -> (i64, i64, i64) {
    let shifted = days + 719_468;
    let (era, day_of_era) = (shifted.div_euclid(146_097), shifted.rem_euclid(146_097));
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * from_march + 2) / 5 + 1;
    let month = if from_march < 10 {
        from_march + 3
    } else {
        from_march - 9
    };
    let year = year_of_era + era * 400 + i64::from(month <= 2);
    (year, month, day)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(number: u64, ttl: f64) -> Entry {
        Entry {
            number,
            owner: String::new(),
            expire_at: 1_700_000_000.5,
            ttl,
            name: None,
            fence: None,
        }
    }

    fn report(ttls: &[f64]) -> Report {
        let entries = ttls.iter().zip(1..).map(|(ttl, number)| entry(number, *ttl));
        Report {
            min: Some(1),
            max: Some(9),
            counters: BTreeMap::from([("get_id_count".to_owned(), 3)]),
            entries: entries.collect(),
        }
    }

    #[test]
    fn times_left_are_the_right_way_round() {
        let stats = report(&[-5.0, 1.0, 2.0, 9.0]).stats();
        assert_eq!((stats.using_ids, stats.unusing_ids), (3, 1));
        let ttls = (stats.using_ttl_max, stats.using_ttl_mid, stats.using_ttl_min);
        assert_eq!(ttls, (9.0, 2.0, 1.0));
        let none = report(&[-5.0]).stats();
        assert_eq!(
            (none.using_ttl_max, none.using_ttl_mid, none.using_ttl_min),
            (0.0, 0.0, 0.0)
        );
    }

    #[test]
    fn json_uses_yarauss_names() {
        let report = report(&[4.0]);
        let stats = report.stats().to_json();
        assert_eq!(stats["client_get_id_count"], 3);
        for name in [
            "client_id_count",
            "client_get_id_success",
            "get_id_no_available_id",
            "extend_ttl_count",
            "extend_ttl_success",
            "extend_ttl_ownership_error",
            "extend_ttl_expire_warning",
            "using_ids",
            "unusing_ids",
            "using_ttl_max",
            "using_ttl_mid",
            "using_ttl_min",
            "min",
            "max",
        ] {
            assert!(!stats[name].is_null(), "{name}");
        }
        let list = report.to_json();
        assert_eq!(list[0]["expire_at"], "2023-11-14T22:13:20.500Z");
        assert_eq!((&list[0]["id"], &list[0]["using"]), (&json!(1), &json!(true)));
    }

    #[test]
    fn dates_are_gregorian() {
        assert_eq!(date_of(0), (1970, 1, 1));
        assert_eq!(date_of(11_016), (2000, 2, 29));
        assert_eq!(date_of(19_723), (2024, 1, 1));
    }

    #[test]
    fn tables_show_what_is_in_use() {
        let report = report(&[-1.0, 4.0]);
        let text = list_table(&report, false);
        assert_eq!(text.lines().count(), 2, "{text}");
        assert_eq!(list_table(&report, true).lines().count(), 3);
        assert!(stats_table(&report.stats()).contains("1 to 9"));
    }
}
