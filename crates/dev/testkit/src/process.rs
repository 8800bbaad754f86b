use std::ffi::{OsStr, OsString};
use std::fs::{self, File, OpenOptions};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Mutex, MutexGuard};
use std::time::Duration;
use std::{io, thread};

use nagaya_process::{descendants, is_alive};
use rustix::process::{Pid, Signal, kill_process};

use crate::{Error, spawner, wait};

/// How many bytes of a failed server's output an error shows.
const OUTPUT_SHOWN_BYTES: usize = 4000;
/// How long the kernel may take to end a process after SIGKILL.
const KILL_LIMIT: Duration = Duration::from_secs(10);

/// What to start: kept by the [`Process`], so that a restart is the same again.
#[derive(Clone, Debug)]
pub struct Launch {
    name: String,
    program: PathBuf,
    args: Vec<OsString>,
    envs: Vec<(OsString, OsString)>,
    user: Option<User>,
    death_signal: Signal,
}

/// The user and group ids that a server runs under instead of ours.
#[derive(Clone, Copy, Debug)]
pub struct User {
    pub uid: u32,
    pub gid: u32,
}

impl Launch {
    /// `name` stands in error messages and in the names of the output files.
    pub fn new(name: impl Into<String>, program: impl Into<PathBuf>) -> Launch {
        Launch {
            name: name.into(),
            program: program.into(),
            args: Vec::new(),
            envs: Vec::new(),
            user: None,
            death_signal: Signal::KILL,
        }
    }

    pub fn args<A: AsRef<OsStr>>(mut self, args: impl IntoIterator<Item = A>) -> Launch {
        self.args
            .extend(args.into_iter().map(|arg| arg.as_ref().to_owned()));
        self
    }

    pub fn env(mut self, name: impl AsRef<OsStr>, value: impl AsRef<OsStr>) -> Launch {
        self.envs
            .push((name.as_ref().to_owned(), value.as_ref().to_owned()));
        self
    }

    /// Runs the process as another user, which only root can do.
    pub fn user(mut self, user: Option<User>) -> Launch {
        self.user = user;
        self
    }

    /// What the kernel sends when the test process dies; SIGKILL by default.
    pub fn death_signal(mut self, signal: Signal) -> Launch {
        self.death_signal = signal;
        self
    }

    fn command(&self, folder: &Path) -> io::Result<Command> {
        let mut command = Command::new(&self.program);
        command
            .args(&self.args)
            .envs(self.envs.iter().map(|(name, value)| (name, value)));
        command.current_dir(folder).stdin(Stdio::null());
        command.stdout(open_output(&folder.join(format!("{}.stdout", self.name)))?);
        command.stderr(open_output(&folder.join(format!("{}.stderr", self.name)))?);
        if let Some(user) = self.user {
            command.uid(user.uid).gid(user.gid);
        }
        Ok(command)
    }
}

/// A process in its own group that ends, with all its descendants, when this
/// value is dropped; the kernel ends it when the test process dies first.
///
/// Faults take `&self`, so that instances shared by many tests can be broken too.
#[derive(Debug)]
pub struct Process {
    launch: Launch,
    folder: PathBuf,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    child: Option<Child>,
    exit: Option<ExitStatus>,
    /// Present while the process is stopped.
    watchman: Option<Child>,
}

impl Process {
    /// Starts the process in `folder`, where its output goes to `NAME.stdout`
    /// and `NAME.stderr`.
    pub fn start(launch: Launch, folder: &Path) -> Result<Process, Error> {
        let process = Process {
            launch,
            folder: folder.to_owned(),
            state: Mutex::default(),
        };
        process.start_again()?;
        Ok(process)
    }

    /// Starts the process once more with the same arguments; ends a running one
    /// with SIGKILL first. Output is appended to the same files.
    pub fn start_again(&self) -> Result<(), Error> {
        self.kill9();
        let command = self.launch.command(&self.folder);
        let child = command.and_then(|command| spawner::spawn(command, self.launch.death_signal));
        let child = child.map_err(|source| {
            Error::io(
                format!("start {} ({})", self.launch.name, self.launch.program.display()),
                source,
            )
        })?;
        *self.state() = State {
            child: Some(child),
            ..State::default()
        };
        Ok(())
    }

    /// Waits until `probe` succeeds while the process runs.
    pub fn wait_ready(
        &self,
        limit: Duration,
        mut probe: impl FnMut() -> Result<(), String>,
    ) -> Result<(), Error> {
        let mut reason = String::new();
        let outcome = wait::poll(limit, || {
            let answer = probe();
            // Asked after the probe: an answer counts only if our process is there to have given it,
            // and not a stranger that took the port first.
            if let Some(status) = self.exit_status() {
                let (name, output) = (self.launch.name.clone(), self.output());
                return Some(Err(Error::Exited { name, status, output }));
            }
            match answer {
                Ok(()) => Some(Ok(())),
                Err(why) => {
                    reason = why;
                    None
                }
            }
        });
        outcome.unwrap_or_else(|| {
            let (name, output) = (self.launch.name.clone(), self.output());
            Err(Error::NotReady {
                name,
                waited_s: limit.as_secs(),
                reason,
                output,
            })
        })
    }

    /// The process id, while it runs.
    pub fn pid(&self) -> Option<u32> {
        self.exit_status();
        self.state().child.as_ref().map(Child::id)
    }

    /// The ids of the process and of all its descendants, while it runs.
    pub fn pids(&self) -> Vec<u32> {
        let Some(pid) = self.pid() else { return Vec::new() };
        let mut pids = descendants(pid);
        pids.push(pid);
        pids
    }

    /// How the process ended; `None` while it runs.
    pub fn exit_status(&self) -> Option<ExitStatus> {
        let mut state = self.state();
        if let Some(child) = &mut state.child
            && let Ok(Some(status)) = child.try_wait()
        {
            state.child = None;
            state.exit = Some(status);
        }
        state.exit
    }

    /// Waits for the process to end by itself.
    pub fn wait(&self, limit: Duration) -> Result<ExitStatus, Error> {
        wait::poll(limit, || self.exit_status()).ok_or_else(|| Error::StillRunning {
            name: self.launch.name.clone(),
            waited_s: limit.as_secs(),
        })
    }

    /// Ends the process and its descendants with SIGKILL, as a power cut would,
    /// and returns when they are gone. Does nothing when it is not running.
    pub fn kill9(&self) {
        let mut state = self.state();
        end_watchman(&mut state);
        let Some(mut child) = state.child.take() else {
            return;
        };
        // Stopped first: a process that cannot fork has no descendants we do not see.
        send(child.id(), Signal::STOP);
        let family = descendants(child.id());
        send(child.id(), Signal::KILL);
        for &pid in &family {
            send(pid, Signal::KILL);
        }
        match child.wait() {
            Ok(status) => state.exit = Some(status),
            Err(error) => panic!("{} cannot be waited for: {error}", self.launch.name),
        }
        let gone = wait::poll(KILL_LIMIT, || {
            family.iter().all(|&pid| !is_alive(pid)).then_some(())
        });
        assert!(
            gone.is_some() || thread::panicking(),
            "children of {} outlived SIGKILL",
            self.launch.name
        );
    }

    /// Freezes the process and its descendants with SIGSTOP: sockets stay open
    /// and nothing answers.
    #[track_caller]
    pub fn stop(&self) {
        let mut state = self.state();
        let Some(pid) = state.child.as_ref().map(Child::id) else {
            panic!("{} is not running", self.launch.name);
        };
        send(pid, Signal::STOP);
        let mut family = descendants(pid);
        for &pid in &family {
            send(pid, Signal::STOP);
        }
        family.push(pid);
        match post_watchman(&family) {
            Ok(watchman) => state.watchman = Some(watchman),
            Err(error) => panic!("could not start sh: {error}"),
        }
    }

    /// Lets a stopped process go on.
    #[track_caller]
    pub fn cont(&self) {
        let mut state = self.state();
        end_watchman(&mut state);
        let Some(pid) = state.child.as_ref().map(Child::id) else {
            panic!("{} is not running", self.launch.name);
        };
        for pid in descendants(pid).into_iter().chain([pid]) {
            send(pid, Signal::CONT);
        }
    }

    /// Whether the process runs and is not stopped.
    pub fn is_running(&self) -> bool {
        self.pid().is_some() && self.state().watchman.is_none()
    }

    /// Ends the process with SIGTERM, or with SIGKILL when it is stopped or takes
    /// longer than `limit`.
    pub fn end(&self, limit: Duration) {
        if self.is_running() {
            self.terminate();
            self.wait(limit).ok();
        }
        self.kill9();
    }

    /// Asks the process to end with SIGTERM, and does not wait for it.
    pub fn terminate(&self) {
        self.signal(Signal::TERM);
    }

    /// Sends any signal to the process itself. Does nothing when it is not running.
    pub fn signal(&self, signal: Signal) {
        if let Some(pid) = self.pid() {
            send(pid, signal);
        }
    }

    /// The end of what the process wrote to standard error and standard output.
    pub fn output(&self) -> String {
        let mut output = String::new();
        for stream in ["stderr", "stdout"] {
            let text = self.read_stream(stream);
            let skipped = text.len().saturating_sub(OUTPUT_SHOWN_BYTES);
            output.push_str(&text[text.ceil_char_boundary(skipped)..]);
        }
        output
    }

    /// All that the process wrote to standard output, over all its restarts.
    pub fn stdout(&self) -> String {
        self.read_stream("stdout")
    }

    /// All that the process wrote to standard error, over all its restarts.
    pub fn stderr(&self) -> String {
        self.read_stream("stderr")
    }

    fn read_stream(&self, stream: &str) -> String {
        let path = self.folder.join(format!("{}.{stream}", self.launch.name));
        let bytes = fs::read(path).unwrap_or_default();
        String::from_utf8_lossy(&bytes).into_owned()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.kill9();
    }
}

fn open_output(path: &Path) -> io::Result<File> {
    OpenOptions::new().create(true).append(true).open(path)
}

fn send(pid: u32, signal: Signal) {
    if let Some(pid) = Pid::from_raw(pid.cast_signed()) {
        // A failure means that the process has just ended by itself.
        kill_process(pid, signal).ok();
    }
}

/// Starts a shell that lets the given processes go on when this process dies.
///
/// A stopped process acts on no signal but SIGKILL, and descendants do not get
/// our parent-death signal at all; so without it, a test killed between `stop`
/// and `cont` would leave frozen processes behind.
fn post_watchman(pids: &[u32]) -> io::Result<Child> {
    let mut command = Command::new("sh");
    // The read ends when the other end of the pipe, which only we hold, is closed.
    command.args(["-c", "read -r _; kill -CONT \"$@\"", "watchman"]);
    command.args(pids.iter().map(u32::to_string));
    command
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .process_group(0);
    command.spawn()
}

fn end_watchman(state: &mut State) {
    if let Some(mut watchman) = state.watchman.take() {
        // The pipe is closed by dropping the child, after the shell is gone.
        watchman.kill().ok();
        watchman.wait().ok();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Folder;

    const LIMIT: Duration = Duration::from_secs(10);

    fn shell(folder: &Folder, script: &str) -> Process {
        let launch = Launch::new("shell", "/bin/sh").args(["-c", script]);
        Process::start(launch, folder.path()).unwrap()
    }

    #[test]
    fn a_dropped_process_ends_with_its_descendants() {
        let folder = Folder::new("process");
        let process = shell(&folder, "sleep 1000 & sleep 1000 & wait");
        let pid = process.pid().unwrap();
        wait::until("two children", LIMIT, || descendants(pid).len() == 2);
        let family = descendants(pid);
        drop(process);
        assert!(!is_alive(pid) && !family.into_iter().any(is_alive));
    }

    #[test]
    fn a_process_outlives_the_thread_that_started_it() {
        let folder = Folder::new("process");
        let process =
            thread::scope(|scope| scope.spawn(|| shell(&folder, "exec sleep 1000")).join().unwrap());
        // A signal from the ended thread would already be there when the second process has run.
        shell(&folder, "exit 0").wait(LIMIT).unwrap();
        assert!(process.exit_status().is_none());
    }

    #[test]
    fn an_early_end_is_reported_with_the_output() {
        let folder = Folder::new("process");
        let process = shell(&folder, "echo the disk is on fire >&2; exit 3");
        let error = process
            .wait_ready(LIMIT, || Err("no answer".into()))
            .unwrap_err()
            .to_string();
        assert!(
            error.contains("exit status: 3") && error.contains("the disk is on fire"),
            "{error}"
        );
    }

    #[test]
    fn a_process_that_never_gets_ready_is_reported_with_the_reason() {
        let folder = Folder::new("process");
        let process = shell(&folder, "exec sleep 1000");
        let error = process
            .wait_ready(Duration::ZERO, || Err("no answer".into()))
            .unwrap_err()
            .to_string();
        assert!(
            error.contains("not ready") && error.contains("no answer"),
            "{error}"
        );
    }

    #[test]
    fn a_stopped_process_acts_on_signals_after_it_continues() {
        let folder = Folder::new("process");
        let process = shell(
            &folder,
            "trap 'exit 7' TERM; echo armed; while :; do sleep 0.01; done",
        );
        wait::until("the trap is set", LIMIT, || process.stdout().contains("armed"));
        process.stop();
        process.terminate();
        assert!(process.wait(Duration::from_millis(100)).is_err());
        process.cont();
        assert_eq!(process.wait(LIMIT).unwrap().code(), Some(7));
    }

    #[test]
    fn a_process_started_again_has_a_new_pid() {
        let folder = Folder::new("process");
        let process = shell(&folder, "exec sleep 1000");
        let first = process.pid().unwrap();
        process.start_again().unwrap();
        assert!(process.pid().unwrap() != first && !is_alive(first));
    }
}
