//! Runs a document's steps in one shell, in an empty folder and on a network of its own.

use super::document::{Act, Block, Step};
use super::expected;
use crate::clients::installed;
use crate::{BINARY, Folder, Launch, Process};
use std::fs::{self, File};
use std::net::TcpListener;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// A tutorial takes a minute; this is for a machine that does a lot besides.
const DOCUMENT_LIMIT: Duration = Duration::from_secs(420);

/// How much of what a step printed is shown when the document fails.
const SHOWN_BYTES: usize = 4000;

/// The ports that documents name.
const PORTS: [u16; 4] = [6380, 7400, 7401, 11212];

/// Flags of `unshare` that give a process an empty network and let all that it has started end with
/// it. Root needs the first list, others may do with the second, where the system allows it.
const ALONE: [&[&str]; 2] = [
    &["--net", "--pid", "--fork", "--kill-child", "--mount-proc"],
    &[
        "--map-current-user",
        "--keep-caps",
        "--net",
        "--pid",
        "--fork",
        "--kill-child",
        "--mount-proc",
    ],
];

/// Runs all steps; panics with the document's line where it is not true.
#[track_caller]
pub(super) fn run(document: &str, steps: &[Step]) {
    let folder = Folder::new("document");
    // Servers that refuse to run as root have to pass through.
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o711)).unwrap();
    let place = Place::prepare(folder.path());
    for step in steps {
        place.write(step);
    }
    let script = folder.write("document.sh", &place.script(steps));
    let (_alone, launch) = shell(&script);
    let launch = launch
        .env("PATH", place.path_variable())
        .env("HOME", &place.home)
        .env("TMPDIR", &place.tmp)
        .env("LANG", "C.UTF-8")
        .env("NODE_PATH", installed("node").join("node_modules"))
        .env("PYTHONUNBUFFERED", "1");
    let process = Process::start(launch, folder.path()).unwrap();
    let ended = process.wait(DOCUMENT_LIMIT);
    let line = fs::read_to_string(place.kept.join("at")).unwrap_or_default();
    let at = line.trim();
    let printed = tail(&place.kept.join(format!("{at}.out")));
    match ended {
        Ok(status) if status.success() => (),
        Ok(status) => panic!(
            "{document}:{at}: {status}\n{printed}{}{}",
            process.output(),
            place.left_running(steps, at)
        ),
        Err(error) => panic!("{document}:{at}: {error}\n{printed}"),
    }
    for step in steps {
        place.compare(document, step);
    }
}

/// Where a document's blocks live and run.
struct Place {
    /// The reader's folder.
    home: PathBuf,
    tmp: PathBuf,
    /// Blocks and what they print, by line.
    kept: PathBuf,
}

impl Place {
    fn prepare(folder: &Path) -> Place {
        let root = Path::new(env!("CARGO_MANIFEST_DIR"))
            .join("../..")
            .canonicalize()
            .unwrap();
        let place = Place {
            home: folder.join("home"),
            tmp: folder.join("tmp"),
            kept: folder.join("kept"),
        };
        for made in [
            &place.home,
            &place.tmp,
            &place.kept,
            &place.home.join("target/release"),
        ] {
            fs::create_dir_all(made).unwrap();
        }
        fs::set_permissions(&place.tmp, fs::Permissions::from_mode(0o1777)).unwrap();
        symlink(BINARY, place.home.join("target/release/nagaya")).unwrap();
        for name in ["scripts", "docs"] {
            symlink(root.join(name), place.home.join(name)).unwrap();
        }
        place
    }

    fn path_variable(&self) -> String {
        let own = self.home.join("target/release");
        let rest = std::env::var("PATH").unwrap_or_default();
        format!("{}:{rest}:/usr/sbin:/sbin", own.display())
    }

    /// Puts a step's text where the script finds it.
    fn write(&self, step: &Step) {
        let text = match &step.act {
            Act::Run(block) => &block.text,
            Act::File { text, .. } => text,
            Act::Stop { .. } | Act::Says { .. } => return,
        };
        fs::write(self.kept.join(format!("{}.{}", step.line, suffix(step))), text).unwrap();
    }

    fn script(&self, steps: &[Step]) -> String {
        let here = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/shell_blocks");
        let mut script = format!(
            "kept='{}'\n. '{}'\ncd '{}'\nip link set lo up 2>/dev/null || true\n",
            self.kept.display(),
            here.join("driver.sh").display(),
            self.home.display()
        );
        for step in steps {
            let line = step.line;
            script.push_str(&format!("at {line}\n"));
            let file = format!("\"$kept/{line}.{}\"", suffix(step));
            script.push_str(&match &step.act {
                Act::File { name, .. } => format!("cp {file} '{name}'\n"),
                Act::Stop { name, signal } => format!("stop '{name}' {signal}\n"),
                Act::Says { name, text } => format!("until_printed '{name}' {}\n", quoted(text)),
                Act::Run(block) => run_block(block, line, &file, &here),
            });
        }
        script.push_str(&self.end_all(steps));
        script
    }

    /// Lets what is still running end as it would at a reader's, so that a crash there is seen here.
    fn end_all(&self, steps: &[Step]) -> String {
        let names = steps.iter().rev().filter_map(|step| match &step.act {
            Act::Run(block) => block.background.as_deref(),
            _ => None,
        });
        names.map(|name| format!("stop '{name}' TERM\n")).collect()
    }

    fn compare(&self, document: &str, step: &Step) {
        let Act::Run(block) = &step.act else { return };
        let line = step.line;
        let printed = fs::read_to_string(self.kept.join(format!("{line}.out"))).unwrap_or_default();
        for text in &block.expects {
            assert!(
                printed.contains(text),
                "{document}:{line}: `{text}` is not in what was printed:\n{printed}"
            );
        }
        if let Some(output) = &block.output {
            assert!(
                expected::fits(&output.text, &printed, output.any_numbers),
                "{document}:{}: shown is\n{}\nbut printed was\n{printed}",
                output.line,
                output.text
            );
        }
    }

    /// What the steps in the background said, for diagnosing a failure.
    fn left_running(&self, steps: &[Step], failed: &str) -> String {
        let mut text = String::new();
        for step in steps {
            let Act::Run(Block {
                background: Some(name),
                ..
            }) = &step.act
            else {
                continue;
            };
            if step.line.to_string() == failed {
                continue;
            }
            let said = tail(&self.kept.join(format!("{}.out", step.line)));
            if !said.is_empty() {
                text.push_str(&format!("\n--- {name}, line {}:\n{said}", step.line));
            }
        }
        text
    }
}

fn suffix(step: &Step) -> &'static str {
    match &step.act {
        Act::Run(block) => match block.language.as_str() {
            "python" => "py",
            "js" if !block.in_browser => "mjs",
            "js" => "js",
            _ => "sh",
        },
        _ => "txt",
    }
}

fn run_block(block: &Block, line: usize, file: &str, here: &Path) -> String {
    let program = match (block.language.as_str(), block.in_browser) {
        (_, true) => format!("node '{}'", here.join("page.js").display()),
        ("python", _) => "python3".to_owned(),
        ("js", _) => "node".to_owned(),
        _ => "bash".to_owned(),
    };
    match (&block.background, &block.until) {
        (Some(name), None) => format!("background '{name}' {line} {program} {file}\n"),
        (Some(name), Some(text)) => format!(
            "background '{name}' {line} {program} {file}\nuntil_printed '{name}' {}\n",
            quoted(text)
        ),
        (None, Some(text)) => format!("until_prints {line} {}\n", quoted(text)),
        (None, None) if block.fails => format!("fails {line}\n"),
        (None, None) if block.language == "sh" => format!(". {file}\n"),
        (None, None) => format!("{program} {file}\n"),
    }
}

fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', r"'\''"))
}

/// A shell on a network of its own. Where the system does not allow that, documents take turns on the
/// ports that they name, which must be free: the file is the turn.
fn shell(script: &Path) -> (Option<File>, Launch) {
    for flags in ALONE {
        let mut probe = std::process::Command::new("unshare");
        let probe = probe.args(flags).args(["ip", "link", "set", "lo", "up"]).output();
        if probe.is_ok_and(|output| output.status.success()) {
            let launch = Launch::new("document", "unshare").args(flags).args(["bash"]);
            return (None, launch.args([script]));
        }
    }
    let turn = File::create(std::env::temp_dir().join("nagaya-documents.lock")).unwrap();
    turn.lock().unwrap();
    for port in PORTS {
        if let Err(error) = TcpListener::bind(("127.0.0.1", port)) {
            panic!("documents need port {port}, as `unshare` does not work here: {error}");
        }
    }
    (Some(turn), Launch::new("document", "bash").args([script]))
}

fn tail(path: &Path) -> String {
    let text = String::from_utf8_lossy(&fs::read(path).unwrap_or_default()).into_owned();
    let skipped = text.len().saturating_sub(SHOWN_BYTES);
    text[text.ceil_char_boundary(skipped)..].to_owned()
}
