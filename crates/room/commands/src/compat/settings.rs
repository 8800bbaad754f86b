//! The settings' part of COMPAT.md.

use std::fmt::Write;

use nagaya_exec::settings::{self, Effect, Setting};

/// Lists every setting by what CONFIG SET does with it.
pub(super) fn write_settings(text: &mut String) {
    let free = || settings::every().filter(|setting| !setting.is_fixed());
    text.push_str(
        "\n## Settings\n\nEvery setting of Redis that CONFIG knows is in force, or harmless to accept, or refused \
         with the reason. Settings that only the start sets are those of nagaya's own file (docs/config.md).\n\n",
    );
    let in_force = free().filter(|setting| setting.effect(false) == Effect::InForce);
    line(text, "In force at once", in_force);
    line(
        text,
        "Shown, and set by the start only",
        settings::every().filter(|setting| setting.is_fixed()),
    );
    text.push_str(
        "\n`save`, `appendonly yes` and another `appendfsync` are refused when `room.persist` is off. Values are \
         UTF-8.\n",
    );
    table(text, "Accepted, without effect", |effect| match effect {
        Effect::Harmless(why) => Some(why),
        _ => None,
    });
    table(
        text,
        "Refused unless it is the value that it has",
        |effect| match effect {
            Effect::Refused(why) => Some(why),
            _ => None,
        },
    );
    text.push_str("\n| On Redis | Because |\n| --- | --- |\n");
    let differ = free().filter(|setting| setting.effect(true) != setting.effect(false));
    let told = differ.filter_map(|setting| match setting.effect(true) {
        Effect::Harmless(why) => Some((format!("without effect: {why}"), setting)),
        Effect::Refused(why) => Some((format!("refused: {why}"), setting)),
        Effect::InForce => None,
    });
    rows(text, told);
}

fn line<'s>(text: &mut String, what: &str, settings: impl Iterator<Item = &'s Setting>) {
    // Writing to a string does not fail.
    writeln!(text, "- {what}: {}.", names(settings)).ok();
}

fn names<'s>(settings: impl Iterator<Item = &'s Setting>) -> String {
    let names: Vec<String> = settings.map(|setting| format!("`{}`", setting.name)).collect();
    names.join(", ")
}

fn table(text: &mut String, what: &str, why: impl Fn(Effect) -> Option<&'static str>) {
    write!(text, "\n| {what} | Because |\n| --- | --- |\n").ok();
    let free = settings::every().filter(|setting| !setting.is_fixed());
    let told = free.filter_map(|setting| why(setting.effect(false)).map(|why| (why.to_owned(), setting)));
    rows(text, told);
}

/// Writes a row for each reason, with the settings that share it.
fn rows(text: &mut String, told: impl Iterator<Item = (String, &'static Setting)>) {
    let mut groups: Vec<(String, Vec<&Setting>)> = Vec::new();
    for (why, setting) in told {
        match groups.iter_mut().find(|(known, _)| *known == why) {
            Some((_, settings)) => settings.push(setting),
            None => groups.push((why, vec![setting])),
        }
    }
    for (why, settings) in groups {
        writeln!(text, "| {} | {why} |", names(settings.into_iter())).ok();
    }
}
