//! What containers of subcommands share: the HELP reply.

use nagaya_command_spec::error::CommandError;

use crate::ctx::Ctx;

/// Stands for a container's own handler. A container without a subcommand fails its arity check, so
/// this is not reached.
pub fn container(ctx: &mut Ctx<'_, '_>) -> Result<(), CommandError> {
    Err(CommandError::wrong_arity(&ctx.command.full_name))
}

/// Writes a HELP reply: a headline, then for each subcommand its form and what it does.
pub fn help(ctx: &mut Ctx<'_, '_>, subcommands: &[(&str, &[&str])]) -> Result<(), CommandError> {
    let container = ctx
        .command
        .full_name
        .split('|')
        .next()
        .unwrap_or_default()
        .to_ascii_uppercase();
    let lines: usize = subcommands.iter().map(|(_, about)| 1 + about.len()).sum();
    ctx.out.array(lines + 3);
    ctx.out.simple(&format!(
        "{container} <subcommand> [<arg> [value] [opt] ...]. Subcommands are:"
    ));
    for (form, about) in subcommands {
        ctx.out.simple(form);
        about
            .iter()
            .for_each(|line| ctx.out.simple(&format!("    {line}")));
    }
    ctx.out.simple("HELP");
    ctx.out.simple("    Print this help.");
    Ok(())
}
