//! Rights are turned back into rules.

use nagaya_command_spec::spec::Category;
use nagaya_command_spec::table::CommandTable;
use nagaya_connections::acl::rules::{Rules, join_selectors};

fn table() -> &'static CommandTable {
    &crate::table::registry().table
}

fn with(rules: &[&str]) -> Rules {
    let mut user = Rules::new(table(), false);
    for rule in rules {
        user.apply(table(), rule.as_bytes(), false).unwrap();
    }
    user
}

#[test]
fn a_single_category_is_described_by_its_name() {
    for (category, name) in Category::ALL {
        if !table().every().any(|command| command.categories.has(*category)) {
            continue;
        }
        let only = with(&[&format!("+@{name}")]);
        assert_eq!(only.root().describe_commands(table()), format!("-@all +@{name}"));
        let all_but = with(&["+@all", &format!("-@{name}")]);
        assert_eq!(
            all_but.root().describe_commands(table()),
            format!("+@all -@{name}")
        );
    }
}

#[test]
fn a_description_makes_the_same_user_again() {
    for rules in [
        &["on", ">secret", "+@all", "-@string", "+incr", "~a*", "%R~b", "&c"][..],
        &[
            "nopass",
            "+acl",
            "-acl|setuser",
            "+select|0",
            "(+get ~x)",
            "( %W~y +@write &* )",
        ],
        &[
            "+@read",
            "+@write",
            "-get",
            "skip-sanitize-payload",
            "allkeys",
            "allchannels",
        ],
        &["reset"],
    ] {
        let user = with(rules);
        let text = String::from_utf8(user.describe(table())).unwrap();
        let words: Vec<&[u8]> = text.split(' ').map(str::as_bytes).collect();
        let mut again = Rules::new(table(), false);
        for rule in join_selectors(&words).unwrap() {
            again.apply(table(), &rule, false).unwrap();
        }
        // `+@all -x` and its description agree on every command, not on how they came about.
        assert_eq!(again, user, "{text}");
    }
}
