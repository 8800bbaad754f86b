//! The reference page and the sample file, made from the declarations.

use std::fmt::Write;

use crate::section::{Field, ReloadPolicy, SectionMeta};
use crate::value::Raw;

/// Renders the Markdown reference of all settings, to follow a hand-written introduction.
pub fn reference_page(sections: &[&'static SectionMeta]) -> String {
    let mut page = String::new();
    for section in sections {
        push(
            &mut page,
            format_args!("\n## `[{}]`\n\n{}\n", section.name, paragraph(section.doc)),
        );
        for field in section.fields {
            push(
                &mut page,
                format_args!("\n### `{}`\n\n", field.full_name(section)),
            );
            push(&mut page, format_args!("{}\n\n", paragraph(field.doc)));
            describe(&mut page, section, field);
        }
    }
    page
}

/// Renders a TOML file in which every setting stands with its default, commented out.
pub fn sample_file(sections: &[&'static SectionMeta]) -> String {
    let mut sample = String::new();
    for section in sections {
        push(
            &mut sample,
            format_args!("\n{}[{}]\n", comment(section.doc), section.name),
        );
        for field in section.fields {
            push(&mut sample, format_args!("\n{}", comment(field.doc)));
            for choice in (field.choices)() {
                push(
                    &mut sample,
                    format_args!("# - {}: {}\n", choice.word, sentence(choice.doc)),
                );
            }
            if let Some(range) = range_text(field) {
                push(&mut sample, format_args!("# Range: {}\n", range.replace('`', "")));
            }
            match (field.default)() {
                Raw::Unset => push(
                    &mut sample,
                    format_args!("# {} is not set by default.\n", field.name),
                ),
                default => push(&mut sample, format_args!("# {} = {default}\n", field.name)),
            }
        }
    }
    sample
}

fn describe(page: &mut String, section: &SectionMeta, field: &Field) {
    let choices = (field.choices)();
    if choices.is_empty() {
        push(page, format_args!("- Type: {}\n", field.kind));
    } else {
        for choice in choices {
            push(
                page,
                format_args!("- `\"{}\"`: {}\n", choice.word, sentence(choice.doc)),
            );
        }
    }
    match (field.default)() {
        Raw::Unset => page.push_str("- Default: not set\n"),
        default => push(page, format_args!("- Default: `{default}`\n")),
    }
    if let Some(range) = range_text(field) {
        push(page, format_args!("- Range: {range}\n"));
    }
    push(
        page,
        format_args!("- Environment: `{}`\n", field.env_name(section)),
    );
    if let Some(flag) = field.flag {
        push(page, format_args!("- Flag: `{flag}`\n"));
    }
    page.push_str(match field.reload {
        ReloadPolicy::Fixed => "- A change takes effect at the next start.\n",
        ReloadPolicy::Reloadable => "- A change takes effect while running.\n",
    });
}

fn range_text(field: &Field) -> Option<String> {
    let (low, high) = field.range?();
    let unit = field.unit.map(|unit| format!(" {unit}")).unwrap_or_default();
    Some(format!("`{low}` to `{high}`{unit}"))
}

fn paragraph(doc: &[&str]) -> String {
    let lines: Vec<_> = doc.iter().map(|line| line.trim()).collect();
    lines.join("\n")
}

fn sentence(doc: &[&str]) -> String {
    paragraph(doc).replace('\n', " ")
}

fn comment(doc: &[&str]) -> String {
    doc.iter()
        .map(|line| format!("# {}", line.trim()).trim_end().to_owned() + "\n")
        .collect()
}

fn push(page: &mut String, text: std::fmt::Arguments<'_>) {
    page.write_fmt(text).expect("writing to a string cannot fail");
}
