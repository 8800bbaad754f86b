//! FCALL and FCALL_RO.

use std::sync::Arc;

use nagaya_command_spec::error::CommandError;
use nagaya_exec::ctx::Ctx;
use nagaya_exec::scripts::run::{Call, run, with_vm};
use nagaya_exec::scripts::traits::Traits;
use nagaya_exec::scripts::vm::Target;
use nagaya_resp::parse_i64;

type Reply = Result<(), CommandError>;

/// FCALL function numkeys [key ...] [arg ...]
pub(super) fn fcall(ctx: &mut Ctx<'_, '_>) -> Reply {
    call(ctx, false)
}

/// FCALL_RO function numkeys [key ...] [arg ...]
pub(super) fn fcall_ro(ctx: &mut Ctx<'_, '_>) -> Reply {
    call(ctx, true)
}

fn call(ctx: &mut Ctx<'_, '_>, read_only: bool) -> Reply {
    with_vm(ctx, |ctx, vm| {
        let libraries = vm.libraries(&ctx.server().scripts);
        let Some((library, function)) = libraries.function(ctx.key(1)) else {
            return Err(CommandError::err("Function not found"));
        };
        let keys = parse_i64(ctx.key(2)).ok_or(CommandError::err("Bad number of keys provided"))?;
        let call = Call::new(ctx, keys)?;
        let traits = Traits::declared(&function.flags);
        let read_only = traits.read_only(read_only)?;
        traits.check_memory(ctx.is_out_of_memory())?;
        vm.prepare_library(library, ctx.server())?;
        let library = Arc::clone(library);
        run(
            ctx,
            vm,
            Target::Function(&library, &function.name),
            &call,
            read_only,
            traits.allow_oom,
        );
        Ok(())
    })
}
