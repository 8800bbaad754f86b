//! Charts of what the house remembers.

use maud::{Markup, html};

use crate::chart::{History, Unit};
use crate::failure::Failure;
use crate::visit::Visit;

/// Title, unit, and the series with the names that people see.
pub(super) type Wanted<'a> = (&'a str, Unit, &'a [(&'a str, &'a str)]);

/// Draws charts of the last hour, side by side.
pub(super) async fn charts(visit: &Visit, wanted: &[Wanted<'_>]) -> Result<Markup, Failure> {
    let names: Vec<&str> = wanted
        .iter()
        .flat_map(|(.., series)| *series)
        .map(|(key, _)| *key)
        .collect();
    let path = format!("/v1/house/history?minutes=60&series={}", names.join(","));
    let history = visit.get_if_any::<History>(&path).await?.unwrap_or_default();
    Ok(html! {
        @for (title, unit, series) in wanted { (history.chart(title, *unit, series).render()) }
    })
}
