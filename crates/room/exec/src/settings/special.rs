//! Settings whose values have a grammar of their own.

use std::fmt::Write;

use nagaya_keyspace::notify::Events;
use nagaya_resp::{parse_f64, parse_i64};

use crate::config::{Config, OutputLimit};
use crate::settings::types::{Field, Place, parse_bytes, read_word};

type Set = Result<(), String>;

pub(crate) fn get_notify(config: &Config) -> String {
    config.notify.letters()
}

pub(crate) fn set_notify(config: &mut Config, text: &str) -> Set {
    config.notify =
        Events::parse(text.as_bytes()).ok_or("Invalid event class character. Use 'Ag$lshzxeKEtmdn'.")?;
    Ok(())
}

pub(crate) fn get_percentiles(config: &Config) -> String {
    let shown = config
        .latency_tracking_info_percentiles
        .iter()
        .map(|percentile| show_percentile(*percentile));
    shown.collect::<Vec<_>>().join(" ")
}

/// Writes a percentile with up to six digits after the point and no idle zeros.
pub fn show_percentile(percentile: f64) -> String {
    let text = format!("{percentile:.6}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

pub(crate) fn set_percentiles(config: &mut Config, text: &str) -> Set {
    let mut percentiles = Vec::new();
    for word in text.split(' ').filter(|_| !text.is_empty()) {
        let percentile =
            parse_f64(word.as_bytes()).ok_or("Invalid latency-tracking-info-percentiles parameters")?;
        if !(0.0..=100.0).contains(&percentile) {
            return Err(
                "latency-tracking-info-percentiles parameters should sit between [0.0,100.0]".to_owned(),
            );
        }
        percentiles.push(percentile);
    }
    config.latency_tracking_info_percentiles = percentiles;
    Ok(())
}

/// Names of the classes of [`Config::client_output_buffer_limit`], by position.
const CLASSES: [&str; 3] = ["normal", "slave", "pubsub"];

pub(crate) fn get_output_limits(config: &Config) -> String {
    let mut text = String::new();
    for (class, limit) in CLASSES.iter().zip(&config.client_output_buffer_limit) {
        let space = if text.is_empty() { "" } else { " " };
        let OutputLimit {
            hard_bytes,
            soft_bytes,
            soft_seconds,
        } = limit;
        // Writing to a string cannot fail.
        write!(text, "{space}{class} {hard_bytes} {soft_bytes} {soft_seconds}").ok();
    }
    text
}

pub(crate) fn set_output_limits(config: &mut Config, text: &str) -> Set {
    let words: Vec<&str> = text.split(' ').collect();
    if !words.len().is_multiple_of(4) {
        return Err("Wrong number of arguments in buffer limit configuration.".to_owned());
    }
    for limit in words.chunks(4) {
        let class = if limit[0].eq_ignore_ascii_case("replica") {
            "slave"
        } else {
            limit[0]
        };
        let class = CLASSES.iter().position(|name| name.eq_ignore_ascii_case(class));
        let class = class.ok_or("Invalid client class specified in buffer limit configuration.")?;
        let wrong = "Error in hard, soft or soft_seconds setting in buffer limit configuration.";
        let bytes = |text| parse_bytes(text).and_then(|bytes| u64::try_from(bytes).ok());
        config.client_output_buffer_limit[class] = OutputLimit {
            hard_bytes: bytes(limit[1]).ok_or(wrong)?,
            soft_bytes: bytes(limit[2]).ok_or(wrong)?,
            soft_seconds: limit[3].parse().map_err(|_| wrong)?,
        };
    }
    Ok(())
}

pub(crate) fn set_password(config: &mut Config, text: &str) -> Set {
    text.clone_into(&mut config.requirepass);
    config.requirepass_sets += 1;
    Ok(())
}

pub(crate) fn get_acl_file(config: &Config) -> String {
    let path = config.acl_file.as_ref();
    path.map_or_else(String::new, |path| path.display().to_string())
}

pub(crate) fn set_acl_file(config: &mut Config, text: &str) -> Set {
    config.acl_file = (!text.is_empty()).then(|| text.into());
    Ok(())
}

pub(crate) fn get_pubsub_default(config: &Config) -> String {
    let word = if config.acl_pubsub_default_all {
        "allchannels"
    } else {
        "resetchannels"
    };
    word.to_owned()
}

pub(crate) fn set_pubsub_default(config: &mut Config, text: &str) -> Set {
    config.acl_pubsub_default_all = read_word(text, &["allchannels", "resetchannels"])? == "allchannels";
    Ok(())
}

fn idle(config: &Config, name: &str, default: &str) -> String {
    config
        .without_effect
        .get(name)
        .map_or(default, String::as_str)
        .to_owned()
}

pub(crate) fn get_save(config: &Config) -> String {
    idle(config, "save", "")
}

pub(crate) fn set_save(config: &mut Config, text: &str) -> Set {
    let wrong = || "Invalid save parameters".to_owned();
    let words: Vec<&str> = text.split(' ').filter(|_| !text.is_empty()).collect();
    if !words.len().is_multiple_of(2) {
        return Err(wrong());
    }
    for (at, word) in words.iter().enumerate() {
        let least = if at % 2 == 0 { 1 } else { 0 };
        parse_i64(word.as_bytes())
            .filter(|number| *number >= least)
            .ok_or_else(wrong)?;
    }
    if !words.is_empty() && !config.persists {
        return Err(KEEPS_NOTHING.to_owned());
    }
    config.without_effect.insert("save", text.to_owned());
    Ok(())
}

const KEEPS_NOTHING: &str = "this server keeps nothing on disk: `room.persist` is off";

pub(crate) fn get_append_only(config: &Config) -> String {
    idle(config, "appendonly", if config.persists { "yes" } else { "no" })
}

pub(crate) fn set_append_only(config: &mut Config, text: &str) -> Set {
    let on = match text.to_ascii_lowercase().as_str() {
        "yes" => true,
        "no" => false,
        _ => return Err("argument must be 'yes' or 'no'".to_owned()),
    };
    if on && !config.persists {
        return Err(KEEPS_NOTHING.to_owned());
    }
    config
        .without_effect
        .insert("appendonly", if on { "yes" } else { "no" }.to_owned());
    Ok(())
}

pub(crate) fn get_sync(config: &Config) -> String {
    config.appendfsync.to_owned()
}

pub(crate) fn set_sync(config: &mut Config, text: &str) -> Set {
    let wanted = read_word(text, &["everysec", "always", "no"])?;
    if wanted != config.appendfsync && !config.persists {
        return Err(KEEPS_NOTHING.to_owned());
    }
    config.appendfsync = wanted;
    Ok(())
}

pub(crate) fn get_oom_values(config: &Config) -> String {
    idle(config, "oom-score-adj-values", "0 200 800")
}

pub(crate) fn set_oom_values(config: &mut Config, text: &str) -> Set {
    let words: Vec<&str> = text.split(' ').collect();
    if words.len() != 3 {
        return Err("wrong number of arguments".to_owned());
    }
    for word in words {
        parse_i64(word.as_bytes())
            .filter(|number| (-2000..=2000).contains(number))
            .ok_or("Invalid oom-score-adj-values, elements must be between -2000 and 2000.")?;
    }
    config
        .without_effect
        .insert("oom-score-adj-values", text.to_owned());
    Ok(())
}

/// A number of bytes, or a percentage of `maxmemory`, kept as its negative.
pub(crate) const MAXMEMORY_CLIENTS: Place = Place::Field {
    get: |config| match config.maxmemory_clients {
        percent if percent < 0 => format!("{}%", -percent),
        bytes => bytes.to_string(),
    },
    set: |config, value| config.maxmemory_clients.put(value),
};
