//! Finds the target of a request: its tag, its slot, and the keys it may write.

use nagaya_command_spec::key_positions::each_key;
use nagaya_command_spec::spec::{OW, RM, RW, WRITE};
use nagaya_command_spec::table::Command;
use nagaya_resp::Args;
use nagaya_tiering::tag::tag_of;

use super::layout::slot_of_tag;
use super::script_words;
use crate::hot_tier::keys::is_reserved;

/// The keys that a request may write.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) enum Writes<'a> {
    #[default]
    None,
    One(&'a [u8]),
    Many(Vec<&'a [u8]>),
}

impl<'a> Writes<'a> {
    pub(crate) fn push(&mut self, key: &'a [u8]) {
        *self = match std::mem::take(self) {
            Writes::None => Writes::One(key),
            Writes::One(first) => Writes::Many(vec![first, key]),
            Writes::Many(mut keys) => {
                keys.push(key);
                Writes::Many(keys)
            }
        };
    }

    pub(crate) fn as_slice(&self) -> &[&'a [u8]] {
        match self {
            Writes::None => &[],
            Writes::One(key) => std::slice::from_ref(key),
            Writes::Many(keys) => keys,
        }
    }
}

/// The target of a request.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Target<'a> {
    pub(crate) slot: u16,
    /// None for a request without keys.
    pub(crate) tag: Option<&'a [u8]>,
    /// The other tags of a request that has several.
    pub(crate) others: Vec<&'a [u8]>,
    pub(crate) writes: Writes<'a>,
    /// It is a script that registers what it writes by itself.
    pub(crate) registers_itself: bool,
}

impl<'a> Target<'a> {
    /// Returns all its tags.
    pub(crate) fn tags(&self) -> impl Iterator<Item = &'a [u8]> {
        self.tag.into_iter().chain(self.others.iter().copied())
    }
}

/// Most tags of one request. All have to be in memory at the same time.
pub(crate) const TAGS_MAX: usize = 1024;

/// Why a request is refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Refusal {
    /// It has a reserved key.
    Reserved,
    /// Its keys have different tags.
    CrossSlot,
    NoTag(Vec<u8>),
    TooManyTags,
    /// SORT would read keys that it does not declare, by this option.
    SortBy(&'static str),
}

impl Refusal {
    /// Returns the text of the error reply.
    pub(crate) fn text(&self) -> String {
        match self {
            Refusal::Reserved => {
                "ERR key names that begin with _room: are kept for the server itself".to_owned()
            }
            Refusal::CrossSlot => "CROSSSLOT Keys in request don't hash to the same slot".to_owned(),
            Refusal::TooManyTags => {
                format!("ERR a request may have keys of {TAGS_MAX} hash tags at most")
            }
            Refusal::SortBy(option) => format!("ERR {option} option of SORT denied in cluster mode."),
            Refusal::NoTag(key) => format!(
                "ERR key '{}' has no hash tag in braces, and room.require_hash_tag is on",
                String::from_utf8_lossy(key)
            ),
        }
    }
}

/// The rules that requests are checked against.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RoutingRules {
    /// Every key must have a hash tag in braces.
    pub(crate) require_hash_tag: bool,
    pub(crate) key_scope: KeyScope,
}

/// How far apart the keys of one request may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum KeyScope {
    /// The tag is the unit of loading and saving.
    OneTag,
    /// As [`KeyScope::OneTag`], with all tags on one node: a request may have several.
    Tags,
    OneSlot,
    /// There is only one node.
    Anywhere,
}

impl RoutingRules {
    /// Checks one key.
    #[inline]
    pub(crate) fn check(&self, key: &[u8]) -> Result<(), Refusal> {
        if key.first() == Some(&b'_') && is_reserved(key) {
            return Err(Refusal::Reserved);
        }
        if self.require_hash_tag && tag_of(key).len() == key.len() {
            return Err(Refusal::NoTag(key.to_vec()));
        }
        Ok(())
    }

    /// Returns the target of a request. One whose keys cannot be found will be refused by any node.
    #[inline]
    pub(crate) fn target<'a>(&self, command: &Command, args: &Args<'a>) -> Result<Target<'a>, Refusal> {
        let Some(key) = command.only_key.and_then(|at| args.get(at)) else {
            return self.target_slowly(command, args, 0);
        };
        self.check(key)?;
        let tag = tag_of(key);
        let is_write = command.spec.flags.has(WRITE) || command.spec.keys[0].flags.has(WRITTEN);
        Ok(Target {
            slot: slot_of_tag(tag),
            tag: Some(tag),
            others: Vec::new(),
            writes: if is_write { Writes::One(key) } else { Writes::None },
            registers_itself: false,
        })
    }

    /// Returns whether tags are moved between tiers.
    fn has_tiers(&self) -> bool {
        matches!(self.key_scope, KeyScope::OneTag | KeyScope::Tags)
    }

    /// As [`RoutingRules::target`], of a request as it was sent: a script's call has words of ours.
    pub(crate) fn target_of_sent<'a>(
        &self,
        command: &Command,
        args: &Args<'a>,
    ) -> Result<Target<'a>, Refusal> {
        let is_script = self.has_tiers() && script_words::is_call(&command.full_name);
        if is_script {
            self.target_slowly(command, args, script_words::keys_added(args))
        } else {
            self.target(command, args)
        }
    }

    /// Returns the target of a request without the last `added` keys.
    fn target_slowly<'a>(
        &self,
        command: &Command,
        args: &Args<'a>,
        added: usize,
    ) -> Result<Target<'a>, Refusal> {
        let mut found: Vec<(&'a [u8], bool)> = Vec::new();
        let told = each_key(command.spec, args, |at, flags| {
            if let Some(key) = args.get(at) {
                found.push((key, flags.has(WRITTEN)));
            }
        });
        if told.is_err() {
            found.clear();
        }
        found.truncate(found.len().saturating_sub(added));
        let is_script = self.has_tiers() && script_words::is_call(&command.full_name);
        if self.has_tiers() && command.full_name.starts_with("sort") {
            check_sort(args)?;
        }
        // A command that writes without saying which keys may write all of them.
        let writes_all = command.spec.flags.has(WRITE) && found.iter().all(|(_, written)| !written);
        let mut target = Target::default();
        for (key, written) in found {
            self.check(key)?;
            let tag = tag_of(key);
            match target.tag {
                None => {
                    target.tag = Some(tag);
                    target.slot = slot_of_tag(tag);
                }
                Some(first) if first == tag => {}
                Some(_) if self.key_scope == KeyScope::Anywhere => {}
                Some(_) if self.key_scope == KeyScope::Tags => {
                    if !target.others.contains(&tag) {
                        target.others.push(tag);
                    }
                    if target.others.len() >= TAGS_MAX {
                        return Err(Refusal::TooManyTags);
                    }
                }
                Some(_) if self.key_scope == KeyScope::OneSlot && slot_of_tag(tag) == target.slot => {}
                Some(_) => return Err(Refusal::CrossSlot),
            }
            if is_script {
                target.registers_itself |= written;
            } else if written || writes_all {
                target.writes.push(key);
            }
        }
        Ok(target)
    }
}

/// Refuses what a Cluster refuses: keys that are made from the sorted elements may have any tag.
fn check_sort(args: &Args<'_>) -> Result<(), Refusal> {
    for at in 2..args.len() {
        let Some(pattern) = args.get(at + 1) else {
            break;
        };
        if args[at].eq_ignore_ascii_case(b"BY") && pattern.contains(&b'*') {
            return Err(Refusal::SortBy("BY"));
        }
        if args[at].eq_ignore_ascii_case(b"GET") && pattern != b"#" {
            return Err(Refusal::SortBy("GET"));
        }
    }
    Ok(())
}

const WRITTEN: nagaya_command_spec::spec::KeyFlags = RW.and(OW).and(RM);

#[cfg(test)]
mod tests {
    use nagaya_commands::table;
    use nagaya_resp::ArgVec;

    use super::*;

    const RULES: RoutingRules = RoutingRules {
        require_hash_tag: false,
        key_scope: KeyScope::OneTag,
    };

    /// Checks the tag and the written keys of a request, or the refusal.
    #[track_caller]
    fn check(request: &str, expected: Result<(&str, &[&str]), Refusal>) {
        let owned: ArgVec = request.split(' ').collect();
        let args = owned.as_args();
        let target = RULES.target(table::find_request(&args).unwrap(), &args);
        let target = target.map(|target| {
            let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
            let writes: Vec<String> = target.writes.as_slice().iter().map(|key| text(key)).collect();
            (target.tag.map_or(String::new(), text), writes)
        });
        let expected = expected.map(|(tag, writes)| {
            (
                tag.to_owned(),
                writes.iter().map(|key| (*key).to_owned()).collect::<Vec<_>>(),
            )
        });
        assert_eq!(target, expected, "{request}");
    }

    #[test]
    fn reads_write_nothing_and_writes_name_all_they_may_write() {
        check("get {a}k", Ok(("a", &[])));
        check("set k v", Ok(("k", &["k"])));
        check("copy {a}1 {a}2", Ok(("a", &["{a}2"])));
        check("rename {a}1 {a}2", Ok(("a", &["{a}1", "{a}2"])));
        check("zunionstore {a}d 2 {a}1 {a}2", Ok(("a", &["{a}d"])));
        check("sort {a}l store {a}d", Ok(("a", &["{a}d"])));
        check("xreadgroup group g c streams {a}s >", Ok(("a", &["{a}s"])));
        check("eval return 2 {a}1 {a}2", Ok(("a", &[])));
        check("eval_ro return 1 {a}1", Ok(("a", &[])));
        check("georadius {a}g 1 2 3 m store {a}d", Ok(("a", &["{a}d"])));
    }

    #[test]
    fn a_script_registers_by_itself_and_is_known_again_with_the_words_added_to_it() {
        let target = |line: &str, sent: bool| {
            let owned: ArgVec = line.split(' ').collect();
            let args = owned.as_args();
            let command = table::find_request(&args).unwrap();
            let target = if sent {
                RULES.target_of_sent(command, &args)
            } else {
                RULES.target(command, &args)
            };
            target.map(|target| (target.tag.map(<[u8]>::to_vec), target.registers_itself))
        };
        let tag = Some(b"a".to_vec());
        assert_eq!(target("eval s 1 {a}1", false), Ok((tag.clone(), true)));
        assert_eq!(target("fcall_ro f 1 {a}1", false), Ok((tag.clone(), false)));
        let sent = format!("eval s 3 {{a}}1 _room:{{a}}:dirty _room:{{x}}:index a{:032x}a", 7);
        assert_eq!(target(&sent, true), Ok((tag, true)));
        assert_eq!(target(&sent, false), Err(Refusal::Reserved));
        assert_eq!(target("eval s 0 -", true), Ok((None, false)));
    }

    #[test]
    fn keys_of_several_tags_and_keys_of_our_own_are_refused() {
        check("sinter {a}1 {b}1", Err(Refusal::CrossSlot));
        check("get _room:{a}:meta", Err(Refusal::Reserved));
        check("sinter {a}1 _room:{a}:meta", Err(Refusal::Reserved));
        check("get _roomy", Ok(("_roomy", &[])));
        check("sort {a}l by w_* get #", Err(Refusal::SortBy("BY")));
        check("sort {a}l get x_*", Err(Refusal::SortBy("GET")));
        check("sort_ro {a}l by nosort get #", Ok(("a", &[])));
    }

    #[test]
    fn a_request_without_tellable_keys_has_no_tag() {
        check("eval return 0", Ok(("", &[])));
        check("eval return 9 {a}1", Ok(("", &[])));
    }
}
