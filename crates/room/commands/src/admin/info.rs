//! INFO: the state of the engine as lines of `field:value`.

use nagaya_command_spec::error::CommandError;
use nagaya_command_spec::spec::{ALL_SHARDS, Category, LOADING, STALE};
use nagaya_exec::ctx::Ctx;
use nagaya_exec::entry::{Entry, cmd};

pub(crate) mod process;
mod sections;
#[cfg(test)]
mod tests;

pub(crate) use sections::client_bytes;
use sections::{Lines, SECTIONS};

pub(crate) const COMMANDS: &[Entry] = &[cmd("INFO", -1, info)
    // Counting the keys takes a look at every shard.
    .flags(LOADING.and(STALE).and(ALL_SHARDS))
    .acl(Category::DANGEROUS)
    .group("server")
    .about("Returns facts and counters about the server.", "O(1)")];

/// INFO [section [section ...]]
fn info(ctx: &mut Ctx<'_, '_>) -> Result<(), CommandError> {
    let mut asked: Vec<String> = ctx
        .args
        .iter()
        .skip(1)
        .map(|arg| String::from_utf8_lossy(arg).to_ascii_lowercase())
        .collect();
    if asked.is_empty() {
        asked.push("default".to_owned());
    }
    let has = |word: &str| asked.iter().any(|name| name == word);
    let all = has("all") || has("everything");
    let mut lines = Lines::default();
    for section in SECTIONS {
        if all || has(section.name) || (section.by_default && has("default")) {
            lines.title(section.title);
            (section.write)(&mut lines, ctx);
        }
    }
    ctx.out.verbatim("txt", lines.text().as_bytes());
    Ok(())
}
