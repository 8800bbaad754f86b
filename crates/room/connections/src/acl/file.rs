//! Users as text, one `user <name> <rules>` per line: the file of ACL LOAD and ACL SAVE.

use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use nagaya_command_spec::table::CommandTable;

use crate::acl::rules::{Rules, join_selectors};
use crate::acl::selector::{RuleError, has_space};
use crate::acl::{Account, Acl};

impl Acl {
    /// Puts the users of a file in place of all others; when any line is wrong, says which and changes
    /// nothing. The connections of users that are gone or changed are for the caller to end.
    ///
    /// A password replaces those that the file has for `default`, so that a new `requirepass` is in force
    /// whatever was saved before; an empty one leaves `default` to the file.
    pub fn load(&self, path: &Path, all_channels: bool, password: &[u8]) -> Result<(), String> {
        let shown = path.display().to_string();
        let text =
            fs::read(path).map_err(|error| format!("Error loading ACLs, opening file '{shown}': {error}"))?;
        let mut users = parse(self.table, &text, &shown, all_channels)?;
        let default = users
            .entry(super::DEFAULT_USER.to_vec())
            .or_insert_with(|| Rules::everything(self.table));
        if !password.is_empty() {
            default.set_only_password(password);
        }
        self.replace_users(users);
        Ok(())
    }

    /// Writes all users to a file, which is replaced as a whole or not at all, and which only its owner can
    /// read. When this returns, the disk has it.
    pub fn save(&self, path: &Path) -> io::Result<()> {
        let _one_at_a_time = self.saving.lock();
        let text: Vec<u8> = self
            .accounts()
            .iter()
            .flat_map(|account| line(self.table, account))
            .collect();
        let mut aside = path.as_os_str().to_owned();
        aside.push(format!(".tmp-{}", std::process::id()));
        let aside = Path::new(&aside);
        let written = write_new(aside, &text).and_then(|()| fs::rename(aside, path));
        if written.is_err() {
            // The half-written copy is of no use; the error to report is the first one.
            fs::remove_file(aside).ok();
            return written;
        }
        // The new name is on the disk once its folder is.
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
        File::open(folder.unwrap_or(Path::new(".")))?.sync_all()
    }
}

/// Writes a file that was not there before, readable by its owner alone.
fn write_new(path: &Path, bytes: &[u8]) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let mut file = OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(path)?;
    file.write_all(bytes)?;
    file.sync_all()
}

/// Returns a user's line, line end included.
pub fn line(table: &CommandTable, account: &Account) -> Vec<u8> {
    [
        b"user ",
        &*account.name,
        b" ",
        &account.rules().describe(table),
        b"\n",
    ]
    .concat()
}

/// Reads the users of a file; when any line is wrong, returns what is wrong with all of them.
pub fn parse(
    table: &CommandTable,
    text: &[u8],
    file: &str,
    all_channels: bool,
) -> Result<BTreeMap<Vec<u8>, Rules>, String> {
    let mut users = BTreeMap::new();
    let mut errors = String::new();
    for (at, line) in text.split(|&byte| byte == b'\n').enumerate() {
        let line = line.trim_ascii();
        if line.is_empty() {
            continue;
        }
        let number = at + 1;
        let words: Vec<&[u8]> = line.split(|&byte| byte == b' ').collect();
        let [b"user", name, rules @ ..] = words.as_slice() else {
            errors += &format!("{file}:{number} should start with user keyword followed by the username. ");
            continue;
        };
        let shown = String::from_utf8_lossy(name);
        if has_space(name) {
            errors += &format!("'{file}:{number}: username '{shown}' contains invalid characters. ");
        } else if users.contains_key(*name) {
            errors += &format!("WARNING: Duplicate user '{shown}' found on line {number}. ");
        } else {
            let user = parse_rules(
                table,
                rules,
                &format!("{file}:{number}"),
                all_channels,
                &mut errors,
            );
            users.insert(name.to_vec(), user);
        }
    }
    if errors.is_empty() {
        return Ok(users);
    }
    Err(errors + "WARNING: ACL errors detected, no change to the previously active ACL rules was performed")
}

/// Applies a line's rules. Of the mistakes in it, every unknown name is told but only the first of the
/// others, which may well have caused those after it.
fn parse_rules(
    table: &CommandTable,
    rules: &[&[u8]],
    place: &str,
    all_channels: bool,
    errors: &mut String,
) -> Rules {
    let mut user = Rules::new(table, all_channels);
    let Ok(joined) = join_selectors(rules) else {
        *errors += &format!("{place}: Unmatched parenthesis in selector definition.");
        return user;
    };
    let mut told = false;
    for rule in &joined {
        match user.apply(table, rule.trim_ascii(), all_channels) {
            Ok(()) => {}
            Err(error @ RuleError::UnknownName) => {
                let shown = String::from_utf8_lossy(rule);
                *errors += &format!("{place}: Error in applying operation '{shown}': {error}. ");
            }
            Err(error) if !told => {
                *errors += &format!("{place}: {error}. ");
                told = true;
            }
            Err(_) => {}
        }
    }
    user
}
