//! Documents name files that exist and figures that were recorded.

use crate::source;
use std::path::Path;

#[test]
fn paths_in_documents_exist() {
    let root = source::root();
    let mut paths: Vec<_> = ["ARCHITECTURE.md", "CONTRIBUTING.md", "README.md"]
        .map(|name| root.join(name))
        .into();
    paths.extend(source::files(&root.join("docs"), "md"));
    let mut missing = Vec::new();
    for document in paths {
        let text = without_code_blocks(&source::read(&document));
        for quoted in text.split('`').skip(1).step_by(2) {
            let is_path = ["crates/", "clients/", "scripts/", "docs/", "bench/", "packaging/"]
                .iter()
                .any(|start| quoted.starts_with(start));
            let path = quoted.split_whitespace().next().unwrap_or_default();
            if is_path && !path.contains('*') && !root.join(Path::new(path)).exists() {
                missing.push(format!(
                    "{}: {path}",
                    document.strip_prefix(&root).unwrap_or(&document).display()
                ));
            }
        }
    }
    assert!(missing.is_empty(), "these do not exist:\n{}", missing.join("\n"));
}

#[test]
fn figures_of_the_readme_are_in_the_runs_they_cite() {
    let root = source::root();
    let readme = source::read(&root.join("README.md"));
    let mut figures = 0;
    for claim in claims(&readme) {
        let Some(run) = cited_run(&claim) else { continue };
        let recorded = source::read(&root.join(run));
        for figure in bold_figures(&claim) {
            assert!(
                has_figure(&recorded, figure),
                "{run} does not have {figure}: {claim}"
            );
            figures += 1;
        }
    }
    assert!(figures > 20, "only {figures} figures were found");
}

#[test]
fn a_figure_is_not_found_inside_another() {
    assert!(has_figure("| 0.85x | 2606 |", "0.85x") && has_figure("| 0.85x | 2606 |", "2606"));
    assert!(!has_figure("10.85x 26061", "0.85x") && !has_figure("10.85x 26061", "2606"));
    assert!(!has_figure("1.205", "1.20") && has_figure("137438/s", "137438"));
}

/// List items and rows of tables, each as one line.
fn claims(document: &str) -> Vec<String> {
    let mut claims: Vec<String> = Vec::new();
    for line in document.lines() {
        match claims.last_mut() {
            Some(claim) if line.starts_with("  ") => claim.push_str(&line[1..]),
            _ => claims.push(line.to_owned()),
        }
    }
    claims
}

/// The path of the run that a claim links to.
fn cited_run(claim: &str) -> Option<&str> {
    let (_, rest) = claim.split_once("](bench/runs/")?;
    let path = rest.split(')').next()?;
    let start = claim.len() - rest.len() - "bench/runs/".len();
    Some(&claim[start..start + "bench/runs/".len() + path.len()])
}

/// What is bold and has a digit.
fn bold_figures(claim: &str) -> impl Iterator<Item = &str> {
    let bold = claim.split("**").skip(1).step_by(2);
    bold.filter(|text| text.chars().any(|character| character.is_ascii_digit()))
}

/// Returns whether the text has the figure, not as part of a longer one.
fn has_figure(text: &str, figure: &str) -> bool {
    text.match_indices(figure).any(|(at, _)| {
        let continues = |next: Option<char>| next.is_some_and(|next| next.is_ascii_digit() || next == '.');
        !continues(text[..at].chars().next_back()) && !continues(text[at + figure.len()..].chars().next())
    })
}

#[test]
fn every_message_of_the_troubleshooting_page_is_printed_by_the_program() {
    let root = source::root();
    let page = source::read(&root.join("docs/troubleshooting.md"));
    let sources: String = source::rust_files()
        .iter()
        .filter(|path| !path.components().any(|part| part.as_os_str() == "tests"))
        .filter(|path| !path.starts_with("crates/dev"))
        .map(|path| plain(&source::read(&root.join(path))))
        .collect();
    let first_cells = page.lines().filter_map(|line| line.strip_prefix("| `"));
    let messages: Vec<&str> = first_cells.filter_map(|cell| cell.split('`').next()).collect();
    assert!(messages.len() > 30, "only {} messages were found", messages.len());
    let unknown: Vec<&&str> = messages.iter().filter(|text| !sources.contains(**text)).collect();
    assert!(unknown.is_empty(), "no source has {unknown:?}");
}

#[test]
fn links_between_documents_lead_somewhere() {
    let root = source::root();
    let mut documents = vec![root.join("README.md"), root.join("CONTRIBUTING.md")];
    documents.extend(source::files(&root.join("docs"), "md"));
    let mut broken = Vec::new();
    for document in documents {
        let text = without_code_blocks(&source::read(&document));
        let text = text.split('`').step_by(2).collect::<String>();
        for link in links(&text) {
            let (path, anchor) = link.split_once('#').unwrap_or((link, ""));
            let to = match path {
                "" => document.clone(),
                path => document.parent().unwrap_or(&root).join(path),
            };
            let is_there = to.exists()
                && (anchor.is_empty() || headings(&source::read(&to)).any(|heading| heading == anchor));
            if !is_there {
                broken.push(format!("{}: {link}", document.display()));
            }
        }
    }
    assert!(broken.is_empty(), "these lead nowhere:\n{}", broken.join("\n"));
}

/// Targets of links to files of this repository, and of the pictures.
fn links(text: &str) -> impl Iterator<Item = &str> {
    let marked = text.split("](").skip(1).filter_map(|rest| rest.split(')').next());
    let pictures = ["src=\"", "srcset=\""]
        .into_iter()
        .flat_map(|start| text.split(start).skip(1))
        .filter_map(|rest| rest.split('"').next());
    marked
        .chain(pictures)
        .filter(|target| !target.contains("://") && !target.starts_with("mailto:"))
}

/// The anchors that a page's headings get: lower case, spaces as dashes, punctuation dropped.
fn headings(page: &str) -> impl Iterator<Item = String> {
    let titles = page.lines().filter(|line| line.starts_with('#'));
    titles.map(|line| {
        let title = line.trim_start_matches('#').trim().to_lowercase();
        let kept = title
            .chars()
            .filter(|character| character.is_alphanumeric() || [' ', '-', '_'].contains(character));
        kept.map(|character| if character == ' ' { '-' } else { character })
            .collect()
    })
}

/// A source with its string literals as they are printed: joined where they go on in the next line, quotes
/// unescaped, no code marks.
fn plain(source: &str) -> String {
    let mut text = String::with_capacity(source.len());
    let mut lines = source.lines();
    while let Some(line) = lines.next() {
        let mut line = line.to_owned();
        while let Some(begun) = line.strip_suffix('\\') {
            let next = lines.next().unwrap_or_default().trim_start();
            line = format!("{begun}{next}");
        }
        text.push_str(&line.replace("\\\"", "\"").replace('`', ""));
        text.push('\n');
    }
    text
}

fn without_code_blocks(text: &str) -> String {
    let mut inside = false;
    let mut kept = String::new();
    for line in text.lines() {
        if line.trim_start().starts_with("```") {
            inside = !inside;
        } else if !inside {
            kept.push_str(line);
            kept.push('\n');
        }
    }
    kept
}
