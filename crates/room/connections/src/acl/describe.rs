//! Turns rights back into rules, for ACL LIST, ACL GETUSER and the file of ACL SAVE.

use nagaya_command_spec::spec::Category;
use nagaya_command_spec::table::CommandTable;

use crate::acl::rules::Rules;
use crate::acl::selector::Selector;

impl Rules {
    /// Returns the words that stand for the user's state.
    pub fn flag_names(&self) -> Vec<&'static str> {
        let mut names = vec![if self.enabled { "on" } else { "off" }];
        if self.nopass {
            names.push("nopass");
        }
        names.extend(self.sanitize.map(|sanitize| match sanitize {
            true => "sanitize-payload",
            false => "skip-sanitize-payload",
        }));
        names
    }

    /// Returns the rules that make this user from a new one.
    pub fn describe(&self, table: &CommandTable) -> Vec<u8> {
        let mut text = self.flag_names().join(" ").into_bytes();
        text.push(b' ');
        for hash in &self.passwords {
            text.push(b'#');
            text.extend_from_slice(hash);
            text.push(b' ');
        }
        text.extend(self.root().describe(table));
        for selector in &self.selectors[1..] {
            text.extend_from_slice(b" (");
            text.extend(selector.describe(table));
            text.push(b')');
        }
        text
    }
}

impl Selector {
    fn describe(&self, table: &CommandTable) -> Vec<u8> {
        let mut parts = Vec::new();
        let keys = self.describe_keys();
        if !keys.is_empty() {
            parts.push(keys);
        }
        if !self.all_channels {
            parts.push(b"resetchannels".to_vec());
        }
        let channels = self.describe_channels();
        if !channels.is_empty() {
            parts.push(channels);
        }
        parts.push(self.describe_commands(table).into_bytes());
        parts.join(&b' ')
    }

    /// Returns the rules for keys, parted by spaces.
    pub fn describe_keys(&self) -> Vec<u8> {
        if self.all_keys {
            return b"~*".to_vec();
        }
        let rules: Vec<Vec<u8>> = self
            .keys
            .iter()
            .map(|known| {
                let prefix: &[u8] = match (known.access.read, known.access.write) {
                    (true, true) => b"~",
                    (true, false) => b"%R~",
                    (false, _) => b"%W~",
                };
                [prefix, &known.pattern].concat()
            })
            .collect();
        rules.join(&b' ')
    }

    /// Returns the rules for channels, parted by spaces.
    pub fn describe_channels(&self) -> Vec<u8> {
        if self.all_channels {
            return b"&*".to_vec();
        }
        let rules: Vec<Vec<u8>> = self
            .channels
            .iter()
            .map(|channel| [b"&", channel.as_slice()].concat())
            .collect();
        rules.join(&b' ')
    }

    /// Returns the rules that lead to this set of commands.
    ///
    /// From `+@all` or `-@all`, whichever the set began with, the categories that fit best come first;
    /// single commands mend what they leave wrong. A shadow selector takes every rule as it is written,
    /// so that it shows what is still to do.
    pub fn describe_commands(&self, table: &CommandTable) -> String {
        let additive = !self.began_with_all;
        let sign = if additive { '+' } else { '-' };
        let mut shadow = Selector::new(table, false);
        shadow.permit_all(table, !additive);
        let mut rules = vec![if additive { "-@all" } else { "+@all" }.to_owned()];
        let mut left = self.clone();
        let mut categories: Vec<_> = Category::ALL.to_vec();
        while let Some(at) = best_category(table, &left, &categories, additive) {
            let (category, name) = categories.remove(at);
            shadow.permit_category(table, category, additive);
            left.permit_category(table, category, !additive);
            rules.push(format!("{sign}@{name}"));
        }
        for command in table.every() {
            let allowed = self.commands.has(command.number);
            if allowed != shadow.commands.has(command.number) {
                shadow.permit(command, allowed);
                rules.push(format!(
                    "{}{}",
                    if allowed { '+' } else { '-' },
                    command.full_name
                ));
            }
            if let Some(first_args) = self.first_args.get(&command.number).filter(|_| !allowed) {
                rules.extend(first_args.iter().map(|first_arg| {
                    format!("+{}|{}", command.full_name, String::from_utf8_lossy(first_arg))
                }));
            }
        }
        rules.join(" ")
    }
}

/// Picks the category that has more right than wrong and the least wrong of all; among equals, the one
/// with the most right.
fn best_category(
    table: &CommandTable,
    left: &Selector,
    categories: &[(Category, &str)],
    additive: bool,
) -> Option<usize> {
    let mut best: Option<(usize, usize, usize)> = None;
    for (at, (category, _)) in categories.iter().enumerate() {
        let (mut right, mut wrong) = (0, 0);
        for command in table.every().filter(|command| command.categories.has(*category)) {
            if left.commands.has(command.number) == additive {
                right += 1;
            } else {
                wrong += 1;
            }
        }
        let better = best.is_none_or(|(_, best_wrong, best_right)| {
            wrong < best_wrong || wrong == best_wrong && right > best_right
        });
        if right > wrong && better {
            best = Some((at, wrong, right));
        }
    }
    best.map(|(at, _, _)| at)
}
