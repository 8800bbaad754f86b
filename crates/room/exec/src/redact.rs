//! Which arguments must not appear in logs.

use nagaya_command_spec::table::Command;
use nagaya_resp::Args;

use crate::settings::Setting;

/// Returns the arguments of a request with passwords and the like replaced.
pub(crate) fn shown<'a>(command: &Command, args: &Args<'a>) -> Vec<&'a [u8]> {
    let mut shown: Vec<&[u8]> = args.iter().collect();
    for at in secrets(command, args) {
        if let Some(arg) = shown.get_mut(at) {
            *arg = b"(redacted)";
        }
    }
    shown
}

/// Lists the positions of secret arguments; some may lie beyond the end.
fn secrets(command: &Command, args: &Args<'_>) -> Vec<usize> {
    let after = |first: usize, word: &str, count: usize| -> Vec<usize> {
        let is_word = |at: &usize| args[*at].eq_ignore_ascii_case(word.as_bytes());
        let found = (first..args.len()).find(is_word);
        found.map_or(Vec::new(), |at| (at + 1..=at + count).collect())
    };
    match command.full_name.as_str() {
        "auth" => (1..args.len()).collect(),
        "acl|setuser" | "acl|deluser" | "acl|getuser" => (2..args.len()).collect(),
        "hello" => after(2, "AUTH", 2),
        "migrate" => [after(6, "AUTH", 1), after(6, "AUTH2", 2)].concat(),
        "config|set" => {
            let names = (2..args.len()).step_by(2);
            let secret = |at: &usize| Setting::find(&args[*at]).is_some_and(|setting| setting.secret);
            names.filter(secret).map(|at| at + 1).collect()
        }
        _ => Vec::new(),
    }
}
