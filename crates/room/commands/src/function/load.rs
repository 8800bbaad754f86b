//! FUNCTION LOAD, DELETE, FLUSH: what changes the libraries.

use std::sync::Arc;

use nagaya_command_spec::error::CommandError;
use nagaya_exec::ctx::Ctx;
use nagaya_exec::scripts::library::{Libraries, Library, SameName};
use nagaya_exec::scripts::load_host::LoadHost;
use nagaya_exec::scripts::run::with_vm;
use nagaya_exec::scripts::shared::Scripts;
use nagaya_exec::scripts::traits::refused;
use nagaya_exec::scripts::vm::ThreadVm;
use nagaya_lua::parse_library_shebang;

type Reply = Result<(), CommandError>;

/// FUNCTION LOAD [REPLACE] code
pub(super) fn load(ctx: &mut Ctx<'_, '_>) -> Reply {
    let last = ctx.args.len() - 1;
    let mut same_name = SameName::Refuse;
    for at in 2..last {
        if !ctx.is(at, "REPLACE") {
            let option = String::from_utf8_lossy(ctx.key(at));
            return Err(CommandError::err(format!("Unknown option given: {option}")));
        }
        same_name = SameName::Replace;
    }
    let code = ctx.key(last);
    let name = with_vm(ctx, |ctx, vm| {
        let server = ctx.server();
        let libraries = server.scripts.libraries();
        let mut host = if ctx.db.replaying {
            LoadHost::unlimited(server)
        } else {
            LoadHost::timed(server)
        };
        let library = make(&server.scripts, vm, code, &libraries, same_name, &mut host)?;
        match libraries.join(std::slice::from_ref(&library), same_name) {
            Ok(joined) => server.scripts.set_libraries(joined),
            Err(error) => {
                vm.drop_library(&library);
                return Err(error);
            }
        }
        Ok(library.name.clone())
    })?;
    ctx.db.dirty += 1;
    ctx.db.effect(&[b"FUNCTION", b"LOAD", b"REPLACE", code]);
    ctx.out.bulk_str(&name);
    Ok(())
}

/// Runs the text of a library that is to stand beside `others`.
pub(super) fn make(
    scripts: &Scripts,
    vm: &mut ThreadVm,
    code: &[u8],
    others: &Libraries,
    same_name: SameName,
    host: &mut LoadHost<'_>,
) -> Result<Arc<Library>, CommandError> {
    let shebang = parse_library_shebang(code).map_err(refused)?;
    let name = shebang.name.unwrap_or_default();
    if same_name == SameName::Refuse && others.contains(&name) {
        return Err(CommandError::err(format!("Library '{name}' already exists")));
    }
    vm.try_library(scripts, name, code, shebang.body_offset, host)
        .map(Arc::new)
}

/// FUNCTION DELETE library
pub(super) fn delete(ctx: &mut Ctx<'_, '_>) -> Reply {
    let scripts = &ctx.server().scripts;
    let mut libraries = Libraries::clone(&scripts.libraries());
    let removed = str::from_utf8(ctx.key(2)).is_ok_and(|name| libraries.remove(name));
    if !removed {
        return Err(CommandError::err("Library not found"));
    }
    scripts.set_libraries(libraries);
    ctx.db.dirty += 1;
    ctx.out.ok();
    Ok(())
}

/// FUNCTION FLUSH [ASYNC | SYNC]
pub(super) fn flush(ctx: &mut Ctx<'_, '_>) -> Reply {
    if ctx.args.len() > 3 {
        return Err(wrong_form(ctx));
    }
    if ctx.args.len() == 3 && !ctx.is(2, "SYNC") && !ctx.is(2, "ASYNC") {
        return Err(CommandError::err(
            "FUNCTION FLUSH only supports SYNC|ASYNC option",
        ));
    }
    ctx.server().scripts.set_libraries(Libraries::default());
    ctx.db.dirty += 1;
    ctx.out.ok();
    Ok(())
}

/// Says that a subcommand has too many arguments.
pub(super) fn wrong_form(ctx: &Ctx<'_, '_>) -> CommandError {
    let name = ctx.key(1);
    let name = String::from_utf8_lossy(&name[..name.len().min(128)]);
    CommandError::err(format!(
        "unknown subcommand or wrong number of arguments for '{name}'. Try FUNCTION HELP."
    ))
}
