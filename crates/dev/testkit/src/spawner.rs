//! The one thread that starts processes.
//!
//! Linux sends the parent-death signal when the *thread* that forked ends, not
//! when its process does. Test threads end all the time, so every fork happens
//! on a thread of its own that lives as long as the process.

use std::io;
use std::os::unix::process::CommandExt;
use std::process::{self, Child, Command};
use std::sync::OnceLock;
use std::sync::mpsc::{self, Sender};
use std::thread;

use rustix::process::Signal;

struct Order {
    command: Command,
    reply: Sender<io::Result<Child>>,
}

/// Starts a command in its own process group; the kernel sends it
/// `death_signal` when this process ends by whatever cause.
pub(crate) fn spawn(mut command: Command, death_signal: Signal) -> io::Result<Child> {
    command.process_group(0);
    die_with_us(&mut command, death_signal);
    let (reply, answer) = mpsc::channel();
    sender()
        .send(Order { command, reply })
        .map_err(|_| io::Error::other("the spawner thread ended"))?;
    answer
        .recv()
        .map_err(|_| io::Error::other("the spawner thread ended"))?
}

fn sender() -> &'static Sender<Order> {
    static SENDER: OnceLock<Sender<Order>> = OnceLock::new();
    SENDER.get_or_init(|| {
        let (sender, orders) = mpsc::channel::<Order>();
        thread::Builder::new()
            .name("testkit-spawner".into())
            .spawn(move || {
                for mut order in orders {
                    // A caller that no longer waits was unwound by a panic; its child must not stay.
                    if let Err(mpsc::SendError(Ok(mut child))) = order.reply.send(order.command.spawn()) {
                        child.kill().ok();
                    }
                }
            })
            .expect("a thread can be started");
        sender
    })
}

/// Sets the parent-death signal in the child. A change of user clears that
/// signal; the standard library changes user before it runs this hook, so the
/// signal holds for servers that run as another user too.
#[allow(unsafe_code, reason = "the hook between fork and exec has no safe form")]
fn die_with_us(command: &mut Command, signal: Signal) {
    let parent = process::id();
    let hook = move || {
        rustix::process::set_parent_process_death_signal(Some(signal))?;
        // The parent may have ended before the signal was set; then it will never come.
        match rustix::process::getppid() {
            Some(pid) if pid.as_raw_nonzero().get().cast_unsigned() == parent => Ok(()),
            _ => Err(io::Error::from(io::ErrorKind::BrokenPipe)),
        }
    };
    // SAFETY: between fork and exec only async-signal-safe calls are allowed. The
    // hook makes two plain system calls and builds errors that allocate nothing.
    unsafe {
        command.pre_exec(hook);
    }
}
