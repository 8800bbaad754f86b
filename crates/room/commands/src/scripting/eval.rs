//! EVAL, EVALSHA and their read-only forms.

use nagaya_command_spec::error::CommandError;
use nagaya_exec::ctx::Ctx;
use nagaya_exec::scripts::run::{Call, run, with_vm};
use nagaya_exec::scripts::shared::{Digest, digest};
use nagaya_exec::scripts::vm::Target;
use nagaya_lua::sha1_hex;

type Reply = Result<(), CommandError>;

/// EVAL script numkeys [key ...] [arg ...]
pub(super) fn eval(ctx: &mut Ctx<'_, '_>) -> Reply {
    by_body(ctx, false)
}

/// EVAL_RO script numkeys [key ...] [arg ...]
pub(super) fn eval_ro(ctx: &mut Ctx<'_, '_>) -> Reply {
    by_body(ctx, true)
}

/// EVALSHA sha1 numkeys [key ...] [arg ...]
pub(super) fn evalsha(ctx: &mut Ctx<'_, '_>) -> Reply {
    by_digest(ctx, false)
}

/// EVALSHA_RO sha1 numkeys [key ...] [arg ...]
pub(super) fn evalsha_ro(ctx: &mut Ctx<'_, '_>) -> Reply {
    by_digest(ctx, true)
}

fn by_body(ctx: &mut Ctx<'_, '_>, read_only: bool) -> Reply {
    let body = ctx.key(1);
    let call = Call::new(ctx, ctx.int(2)?)?;
    execute(ctx, &sha1_hex(body), Some(body), &call, read_only)
}

fn by_digest(ctx: &mut Ctx<'_, '_>, read_only: bool) -> Reply {
    let Some(digest) = digest(ctx.key(1)) else {
        return Err(CommandError::coded(
            "NOSCRIPT No matching script. Please use EVAL.",
        ));
    };
    let call = Call::new(ctx, ctx.int(2)?)?;
    execute(ctx, &digest, None, &call, read_only)
}

fn execute(
    ctx: &mut Ctx<'_, '_>,
    digest: &Digest,
    body: Option<&[u8]>,
    call: &Call<'_>,
    read_only: bool,
) -> Reply {
    with_vm(ctx, |ctx, vm| {
        let traits = vm.prepare_script(&ctx.server().scripts, digest, body)?;
        let read_only = traits.read_only(read_only)?;
        traits.check_memory(ctx.is_out_of_memory())?;
        run(ctx, vm, Target::Script(digest), call, read_only, traits.allow_oom);
        Ok(())
    })
}
