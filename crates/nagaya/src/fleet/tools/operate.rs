//! `nagaya fleet relocate`, `drain`, `ask` and `confirm`.

use std::process::ExitCode;

use nagaya_config::Loaded;
use nagaya_fleet::commands::{self, Policy};
use nagaya_fleet::plan::SeedRules;
use serde_json::json;

use super::args::{AskArgs, ConfirmArgs, DrainArgs, PolicyName, RelocateArgs};
use super::list::{ask as talk, print, print_json, tidy};

pub(super) fn relocate(loaded: &Loaded, args: &RelocateArgs) -> anyhow::Result<ExitCode> {
    let Some(worker) = &args.worker else {
        return relocate_all(loaded, args);
    };
    let to = talk(loaded, &args.store, async |store| {
        commands::relocate(store, worker, args.force).await
    })?;
    if args.json {
        print_json(&json!({"worker": worker.as_str(), "to": to.as_str()}))
    } else {
        print(&format!("{worker} goes to {to}\n"))
    }
}

fn relocate_all(loaded: &Loaded, args: &RelocateArgs) -> anyhow::Result<ExitCode> {
    let policy = match args.policy {
        PolicyName::Even => Policy::Even,
        PolicyName::Seed => Policy::Seed(SeedRules::Document),
        PolicyName::SeedCode => Policy::Seed(SeedRules::Code),
    };
    let moves = talk(loaded, &args.store, async |store| {
        commands::relocate_all(store, policy).await
    })?;
    if args.json {
        print_json(&json!({"moves": moves}))
    } else {
        print(&format!("{moves} workers are asked to move\n"))
    }
}

pub(super) fn drain(loaded: &Loaded, args: &DrainArgs) -> anyhow::Result<ExitCode> {
    let name = &args.instance;
    let workers = talk(loaded, &args.store, async |store| {
        commands::drain(store, name, !args.off).await
    })?;
    match (args.json, args.off) {
        (true, off) => print_json(&json!({"instance": name.as_str(), "draining": !off, "workers": workers})),
        (false, false) => print(&format!("{name} is drained of {workers} workers\n")),
        (false, true) => print(&format!("{name} gets workers again; it has {workers}\n")),
    }
}

pub(super) fn ask(loaded: &Loaded, args: &AskArgs) -> anyhow::Result<ExitCode> {
    let answers = talk(loaded, &args.store, async |store| {
        commands::run_ask(store, &args.key, args.worker.as_ref(), args.timeout).await
    })?;
    if args.json {
        print_json(&answers.to_json())?
    } else {
        print(&tidy(&answers.to_table()))?
    };
    Ok(if answers.is_whole() {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

pub(super) fn confirm(loaded: &Loaded, args: &ConfirmArgs) -> anyhow::Result<ExitCode> {
    let confirmed = talk(loaded, &args.store, async |store| {
        commands::confirm(store, args.digest.as_deref()).await
    })?;
    match (&confirmed, args.json) {
        (_, true) => print_json(&json!({"confirmed": confirmed.as_ref().map(|held| held.stops),
            "digest": confirmed.as_ref().map(|held| held.digest.as_str())}))?,
        (Some(held), false) => print(&format!(
            "the stops of {} of {} workers are confirmed\n",
            held.stops, held.of
        ))?,
        (None, false) => print("nothing that fits is held\n")?,
    };
    Ok(match confirmed {
        Some(_) => ExitCode::SUCCESS,
        None => ExitCode::FAILURE,
    })
}
