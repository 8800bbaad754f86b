//! Small parts that pages are put together from.

use maud::{Markup, Render, html};

use crate::format;
use crate::request::PageRequest;
use crate::session_guard::FORM_WORD;

/// How a state looks. The word is always there, so colour is never the only sign.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Tone {
    Good,
    Busy,
    Warning,
    Bad,
    Plain,
}

impl Tone {
    pub(crate) fn class(self) -> &'static str {
        match self {
            Tone::Good => "good",
            Tone::Busy => "busy",
            Tone::Warning => "warning",
            Tone::Bad => "bad",
            Tone::Plain => "plain",
        }
    }
}

/// A state in a word.
pub(crate) fn badge(tone: Tone, word: &str) -> Markup {
    html! { span class={ "badge " (tone.class()) } { (word) } }
}

/// The state of a service.
pub(crate) fn service_badge(state: &str) -> Markup {
    let tone = match state {
        "ready" => Tone::Good,
        "starting" => Tone::Busy,
        "draining" => Tone::Warning,
        "failed" => Tone::Bad,
        _ => Tone::Plain,
    };
    badge(tone, state)
}

/// The state of a job.
pub(crate) fn job_badge(state: &str) -> Markup {
    let tone = match state {
        "succeeded" => Tone::Good,
        "running" => Tone::Busy,
        "failed" => Tone::Bad,
        "waiting" => Tone::Warning,
        _ => Tone::Plain,
    };
    badge(tone, state)
}

/// A figure with its name, for rows of them.
pub(crate) fn figure(name: &str, value: impl Render) -> Markup {
    html! { div.figure { dt { (name) } dd { (value) } } }
}

/// A row of figures.
pub(crate) fn figures(inner: Markup) -> Markup {
    html! { dl.figures { (inner) } }
}

/// A list of facts, name beside value; facts without a value are left out by the caller.
pub(crate) fn facts(rows: &[(&str, Markup)]) -> Markup {
    html! {
        dl.facts {
            @for (name, value) in rows { dt { (name) } dd { (value) } }
        }
    }
}

/// A titled part of a page.
pub(crate) fn card(title: &str, content: Markup) -> Markup {
    html! { section.card { h2 { (title) } (content) } }
}

/// Something is not there, in a friendly way.
pub(crate) fn nothing(text: &str) -> Markup {
    html! { p.nothing { (text) } }
}

/// A point in time: how long ago or ahead, with the exact time for those who point at it.
pub(crate) fn time(at_ms: i64) -> Markup {
    let exact = format::timestamp(at_ms);
    html! { time datetime=(exact) title=(exact) { (format::ago(at_ms, format::now_ms())) } }
}

/// The same for a time that the API writes as text; what is none is shown as it is.
pub(crate) fn time_text(text: &str) -> Markup {
    match format::parse_time(text) {
        Some(at_ms) => time(at_ms),
        None => html! { (text) },
    }
}

/// How much of something is used, as a bar with its numbers in words. `share` is from 0 to 1.
pub(crate) fn meter(label: &str, share: f64, words: &str) -> Markup {
    let width = format!("{:.1}", share.clamp(0.0, 1.0) * 100.0);
    let tone = if share > 0.95 {
        "bad"
    } else if share > 0.8 {
        "warning"
    } else {
        "busy"
    };
    html! {
        div.meter {
            svg viewBox="0 0 100 6" preserveAspectRatio="none" role="img" aria-label={ (label) ": " (words) } {
                rect.track x="0" y="0" width="100" height="6" {}
                rect class=(tone) x="0" y="0" width=(width) height="6" {}
            }
            span { (words) }
        }
    }
}

/// A link that looks like a button.
pub(crate) fn link_button(href: &str, text: &str) -> Markup {
    html! { a.button href=(href) { (text) } }
}

/// A link to a page that asks whether it is meant. With script the question comes as a dialog.
pub(crate) fn action(href: &str, text: &str, tone: Tone) -> Markup {
    html! { a class={ "button " (tone.class()) } href=(href) data-confirm { (text) } }
}

/// The hidden field that every form carries.
pub(crate) fn form_word(request: &PageRequest) -> Markup {
    html! { input type="hidden" name=(FORM_WORD) value=(request.info.form_word); }
}

/// A question before something is done.
pub(crate) struct Question<'a> {
    /// Where the form is sent to.
    pub(crate) action: &'a str,
    /// What happens, in a sentence or two.
    pub(crate) text: Markup,
    /// Fields of the form, if any.
    pub(crate) fields: Markup,
    /// The word on the button.
    pub(crate) button: &'a str,
    pub(crate) is_dangerous: bool,
    /// Where to go when it is not meant.
    pub(crate) back: &'a str,
}

impl Question<'_> {
    /// The question as the content of a page; the script shows the same form in a dialog.
    pub(crate) fn ask(&self, request: &PageRequest) -> Markup {
        html! {
            form.card.question method="post" action=(self.action) {
                (form_word(request))
                div.words { (self.text) }
                (self.fields)
                div.buttons {
                    a.button href=(self.back) data-close { "Keep it as it is" }
                    button class=(if self.is_dangerous { "primary bad" } else { "primary" }) type="submit" {
                        (self.button)
                    }
                }
            }
        }
    }
}

/// What the form before this page did, if one led here: `?done=` says which and `?n=` to how many.
pub(crate) fn notice(request: &PageRequest) -> Markup {
    let Some(done) = request.query("done") else {
        return html! {};
    };
    let count: Option<u64> = request.query("n").and_then(|count| count.parse().ok());
    let text = match (done, count) {
        ("retry", None) => "The job will run again.".to_owned(),
        ("cancel", None) => "The job was cancelled.".to_owned(),
        ("pause", _) => "The queue is paused: running jobs go on, no others start.".to_owned(),
        ("resume", _) => "The queue gives out jobs again.".to_owned(),
        ("retry", Some(count)) => format!("{} will run again.", format::counted(count, "job")),
        ("cancel", Some(count)) => format!("{} cancelled.", format::counted(count, "job")),
        ("replay", count) => format!(
            "{} will be sent again.",
            format::counted(count.unwrap_or(1), "delivery")
        ),
        ("warm", count) => format!(
            "{} brought into memory.",
            format::counted(count.unwrap_or(0), "key")
        ),
        ("evict", count) => format!("{} sent to disk.", format::counted(count.unwrap_or(0), "key")),
        ("erase", count) => format!("{} erased.", format::counted(count.unwrap_or(0), "key")),
        ("drain", _) => "The instance is being drained.".to_owned(),
        ("undrain", _) => "The instance takes workers again.".to_owned(),
        ("relocate", _) => "The move was asked for.".to_owned(),
        ("confirm", _) => "The change was confirmed.".to_owned(),
        _ => return html! {},
    };
    html! { p.notice role="status" { (text) } }
}
