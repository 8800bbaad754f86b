//! FUNCTION DUMP and RESTORE: libraries as bytes.

use std::sync::Arc;

use nagaya_command_spec::error::CommandError;
use nagaya_exec::ctx::Ctx;
use nagaya_exec::scripts::library::{Libraries, Library, SameName};
use nagaya_exec::scripts::load_host::LoadHost;
use nagaya_exec::scripts::run::with_vm;
use nagaya_exec::scripts::vm::ThreadVm;
use nagaya_exec::server::Server;
use nagaya_store::rdb::{FunctionError, functions};

use super::load::{make, wrong_form};

type Reply = Result<(), CommandError>;

/// What RESTORE does with the libraries that are there.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Policy {
    Flush,
    Append,
    Replace,
}

/// FUNCTION DUMP
pub(super) fn dump(ctx: &mut Ctx<'_, '_>) -> Reply {
    ctx.out.bulk(&ctx.server().scripts.dump_functions());
    Ok(())
}

/// FUNCTION RESTORE payload [FLUSH | APPEND | REPLACE]
pub(super) fn restore(ctx: &mut Ctx<'_, '_>) -> Reply {
    if ctx.args.len() > 4 {
        return Err(wrong_form(ctx));
    }
    let policy = if ctx.args.len() < 4 || ctx.is(3, "APPEND") {
        Policy::Append
    } else if ctx.is(3, "REPLACE") {
        Policy::Replace
    } else if ctx.is(3, "FLUSH") {
        Policy::Flush
    } else {
        return Err(CommandError::err(
            "Wrong restore policy given, value should be either FLUSH, APPEND or REPLACE.",
        ));
    };
    let payload = ctx.key(2);
    with_vm(ctx, |ctx, vm| {
        let server = ctx.server();
        let mut made = Vec::new();
        let joined = read(server, vm, payload, &mut made).and_then(|read| match policy {
            Policy::Flush => Ok(read),
            Policy::Append => server.scripts.libraries().join(&made, SameName::Refuse),
            Policy::Replace => server.scripts.libraries().join(&made, SameName::Replace),
        });
        match joined {
            Ok(joined) => server.scripts.set_libraries(joined),
            Err(error) => {
                made.iter().for_each(|library| vm.drop_library(library));
                return Err(error);
            }
        }
        Ok(())
    })?;
    ctx.db.dirty += 1;
    ctx.out.ok();
    Ok(())
}

/// Runs the texts of a payload's libraries; those in `made` are loaded even when a later one fails.
fn read(
    server: &Server,
    vm: &mut ThreadVm,
    payload: &[u8],
    made: &mut Vec<Arc<Library>>,
) -> Result<Libraries, CommandError> {
    let mut libraries = Libraries::default();
    let mut host = LoadHost::unlimited(server);
    for code in functions(payload).map_err(refused)? {
        let code = code.map_err(refused)?;
        let library = make(
            &server.scripts,
            vm,
            &code,
            &libraries,
            SameName::Refuse,
            &mut host,
        )?;
        made.push(Arc::clone(&library));
        libraries.add_new(&library)?;
    }
    Ok(libraries)
}

fn refused(error: FunctionError) -> CommandError {
    CommandError::err(match error {
        FunctionError::VersionOrChecksum => "DUMP payload version or checksum are wrong",
        FunctionError::NotAFunction => "given type is not a function",
        FunctionError::BadData => "Failed loading library payload",
    })
}
