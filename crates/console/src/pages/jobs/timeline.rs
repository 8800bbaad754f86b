//! What happened to a job, in order.

use maud::{Markup, html};

use super::model::{Attempt, Job, LateReport};
use crate::format;
use crate::html::time_text;

/// One thing that happened.
struct Moment<'a> {
    at: &'a str,
    tone: &'static str,
    words: Markup,
    /// What was said about it at length.
    text: Option<&'a str>,
}

/// Registration, attempts with their ends, refused reports, and what comes next.
pub(super) fn timeline(job: &Job) -> Markup {
    let mut moments = vec![Moment {
        at: &job.summary.created_at,
        tone: "plain",
        words: html! { b { "Registered" } },
        text: None,
    }];
    moments.extend(job.history.iter().map(of_attempt));
    moments.extend(job.late_reports.iter().map(of_late_report));
    // Times are text of one form in UTC, but fractions differ in length.
    moments.sort_by_key(|moment| format::parse_time(moment.at));
    if let Some(ended_at) = &job.summary.ended_at {
        moments.push(of_end(job, ended_at));
    }
    let hidden = job
        .late_reports_count
        .saturating_sub(job.late_reports.len() as u64);
    html! {
        ol.timeline {
            @for moment in &moments {
                li class=(moment.tone) {
                    div.what { (moment.words) (time_text(moment.at)) }
                    @if let Some(text) = moment.text { pre { (text) } }
                }
            }
            @if let (Some(run_at), false) = (&job.summary.run_at, job.summary.has_ended()) {
                li { div.what { span { b { "Next" } ": its time comes" } (time_text(run_at)) } }
            }
        }
        @if hidden > 0 { p.quiet { "And " (format::counted(hidden, "older late report")) "." } }
    }
}

fn of_attempt(attempt: &Attempt) -> Moment<'_> {
    let took = (attempt.ended_at.as_deref().and_then(format::parse_time))
        .zip(format::parse_time(&attempt.started_at))
        .map(|(end_ms, start_ms)| u64::try_from(end_ms - start_ms).unwrap_or(0));
    let (tone, end) = match attempt.end.as_deref() {
        Some("succeeded") => ("good", "succeeded"),
        Some("failed") => ("bad", "failed"),
        Some("lease_lost") => ("warning", "lost its lease"),
        Some(_) => ("plain", "cancelled"),
        None => ("busy", "runs"),
    };
    Moment {
        at: &attempt.started_at,
        tone,
        words: html! {
            span {
                b { "Attempt " (attempt.number) " " (end) }
                @if let Some(took) = took { " after " (format::duration_ms(took)) }
                " on " code { (attempt.worker) }
            }
        },
        text: attempt.error.as_deref(),
    }
}

fn of_late_report(report: &LateReport) -> Moment<'_> {
    Moment {
        at: &report.at,
        tone: "warning",
        words: html! {
            span { b { "Late report refused" } ": " (report.what) " of attempt " (report.attempt) ", " (report.why) }
        },
        text: None,
    }
}

fn of_end<'a>(job: &'a Job, ended_at: &'a str) -> Moment<'a> {
    let tone = match job.summary.state.as_str() {
        "succeeded" => "good",
        "failed" => "bad",
        _ => "plain",
    };
    // The last attempt has said the same error already, mostly.
    let said = job.history.last().and_then(|attempt| attempt.error.as_deref());
    Moment {
        at: ended_at,
        tone,
        words: html! { b { "Ended: " (job.summary.state) } },
        text: job.summary.error.as_deref().filter(|error| said != Some(*error)),
    }
}
