//! The table of settings: one row each, with its names, its values and where they live.

mod idle;
mod rows;
mod special;
mod table;
mod types;

pub use special::show_percentile;
pub use types::{Effect, Setting, parse_bytes};

/// Lists every setting.
pub fn every() -> impl Iterator<Item = &'static Setting> {
    table::IN_FORCE.iter().chain(idle::IDLE)
}

impl Setting {
    /// Finds a setting by one of its names, letter case ignored.
    pub fn find(name: &[u8]) -> Option<&'static Setting> {
        Setting::find_named(name).map(|(setting, _)| setting)
    }

    /// Finds a setting and the one of its names that was meant.
    pub fn find_named(name: &[u8]) -> Option<(&'static Setting, &'static str)> {
        every().find_map(|setting| {
            let mut names = std::iter::once(setting.name).chain(setting.alias);
            let meant = names.find(|known| known.as_bytes().eq_ignore_ascii_case(name))?;
            Some((setting, meant))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Config;

    #[test]
    fn every_setting_takes_back_the_value_it_shows() {
        for setting in every() {
            let mut config = Config::default();
            let shown = setting.get(&config);
            let same = setting.set(&mut config, shown.as_bytes());
            assert_eq!(same, Ok(()), "{} = {shown:?}", setting.name);
            assert_eq!(setting.get(&config), shown, "{}", setting.name);
        }
    }

    #[test]
    fn names_are_found_once_in_any_case() {
        let mut names: Vec<&str> = every()
            .flat_map(|setting| std::iter::once(setting.name).chain(setting.alias))
            .collect();
        names.sort_unstable();
        let before = names.len();
        names.dedup();
        assert_eq!(names.len(), before);
        let found = Setting::find(b"HASH-max-ZIPLIST-entries").unwrap();
        assert_eq!(found.name, "hash-max-listpack-entries");
    }

    #[test]
    fn sizes_take_units() {
        for (text, bytes) in [
            ("0", Some(0)),
            ("1k", Some(1000)),
            ("1KB", Some(1024)),
            ("3mb", Some(3 << 20)),
            ("2Gb", Some(2 << 30)),
            ("-1", None),
            ("", None),
            ("1tb", None),
            ("kb", None),
        ] {
            assert_eq!(parse_bytes(text), bytes, "{text}");
        }
    }

    #[track_caller]
    fn refused(name: &str, text: &str, reason: &str) {
        let setting = Setting::find(name.as_bytes()).unwrap();
        let refusal = setting.set(&mut Config::default(), text.as_bytes());
        assert_eq!(refusal, Err(reason.to_owned()), "{name} {text}");
    }

    #[test]
    fn bad_values_are_refused_in_redis_words() {
        refused("latency-tracking", "maybe", "argument must be 'yes' or 'no'");
        refused("timeout", "x", "argument couldn't be parsed into an integer");
        refused(
            "timeout",
            "-1",
            "argument must be between 0 and 2147483647 inclusive",
        );
        refused("maxmemory", "12xb", "argument must be a memory value");
        refused(
            "maxmemory-clients",
            "200%",
            "percentage argument must be less or equal to 100",
        );
        refused(
            "maxmemory-clients",
            "x",
            "argument must be a memory or percent value",
        );
        refused(
            "loglevel",
            "loud",
            "argument(s) must be one of the following: debug, verbose, notice, warning",
        );
        refused("port", "1", "Unable to listen on this port. Check server logs.");
        refused(
            "notify-keyspace-events",
            "q",
            "Invalid event class character. Use 'Ag$lshzxeKEtmdn'.",
        );
        refused(
            "latency-tracking-info-percentiles",
            "10 101",
            "latency-tracking-info-percentiles parameters should sit between [0.0,100.0]",
        );
        refused("save", "10", "Invalid save parameters");
    }
}
