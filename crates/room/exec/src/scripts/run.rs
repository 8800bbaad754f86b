//! What EVAL and FCALL have in common.

use nagaya_command_spec::error::CommandError;
use nagaya_keyspace::shard::LongScript;
use nagaya_lua::RunOutcome;

use crate::ctx::Ctx;
use crate::scripts::host::{RunInfo, ScriptHost};
use crate::scripts::vm::{Target, ThreadVm};

/// The keys and arguments of a request, one after the other.
pub struct Call<'c> {
    words: Vec<&'c [u8]>,
    keys: usize,
}

impl<'c> Call<'c> {
    /// Splits what follows the number of keys at argument 2.
    pub fn new(ctx: &Ctx<'c, '_>, keys: i64) -> Result<Call<'c>, CommandError> {
        let words: Vec<&[u8]> = ctx.args.skip(3).iter().collect();
        if keys > words.len() as i64 {
            return Err(CommandError::err(
                "Number of keys can't be greater than number of args",
            ));
        }
        let keys =
            usize::try_from(keys).map_err(|_| CommandError::err("Number of keys can't be negative"))?;
        Ok(Call { words, keys })
    }
}

/// Lends this thread's Lua environment, made when it is the first time.
pub fn with_vm<'c, 's, R>(
    ctx: &mut Ctx<'c, 's>,
    work: impl FnOnce(&mut Ctx<'c, 's>, &mut ThreadVm) -> Result<R, CommandError>,
) -> Result<R, CommandError> {
    let mut vm = match ctx.executor.scripts.vm.take() {
        Some(vm) => vm,
        None => Box::new(ThreadVm::new(&ctx.executor.server.scripts)?),
    };
    let result = work(ctx, &mut vm);
    ctx.executor.scripts.vm = Some(vm);
    result
}

/// Runs something that was made ready and writes its reply.
pub fn run(
    ctx: &mut Ctx<'_, '_>,
    vm: &mut ThreadVm,
    target: Target<'_>,
    call: &Call<'_>,
    read_only: bool,
    allow_oom: bool,
) {
    let (kind, name) = match target {
        Target::Script(digest) => (LongScript::Script, digest.as_slice()),
        Target::Function(_, name) => (LongScript::Function, name.as_bytes()),
    };
    let info = RunInfo {
        kind,
        name,
        command: ctx.args,
        read_only,
        allow_oom,
    };
    let monitors = &ctx.executor.server.monitors;
    if monitors.any() {
        // Before the commands that it calls.
        monitors.feed(ctx.executor.now_us(), ctx.session, ctx.command, &ctx.args);
    }
    let start = ctx.out.buf.len();
    let mut host = ScriptHost::new(ctx.executor, ctx.db, ctx.session, info);
    let (keys, argv) = call.words.split_at(call.keys);
    let outcome = vm.run(target, keys, argv, &mut host, ctx.out);
    drop(host);
    match outcome {
        RunOutcome::Replied => {}
        RunOutcome::Error { already_counted } => {
            ctx.executor.scripts.error_counted = already_counted && ctx.out.buf.get(start) == Some(&b'-');
        }
        RunOutcome::Missing => ctx.out.error("ERR the script was lost"),
    }
}
