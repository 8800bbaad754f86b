//! Charts of what the server remembers.

use maud::{Markup, html};

use crate::chart::Unit;
use crate::failure::Failure;
use crate::history::History;
use crate::request::PageRequest;

/// Title, unit, and the series with the names that people see.
pub(super) type Wanted<'a> = (&'a str, Unit, &'a [(&'a str, &'a str)]);

/// Draws charts of the last hour, to stand side by side.
pub(super) async fn charts(request: &PageRequest, wanted: &[Wanted<'_>]) -> Result<Markup, Failure> {
    let names: Vec<&str> = wanted
        .iter()
        .flat_map(|(.., series)| *series)
        .map(|(key, _)| *key)
        .collect();
    let history = History::read(request, &names).await?;
    Ok(html! {
        @for (title, unit, series) in wanted { (history.chart(title, *unit, series).render()) }
    })
}
