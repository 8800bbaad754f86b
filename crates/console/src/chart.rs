//! Charts, drawn as SVG from series of numbers.
//!
//! The drawing stretches to its place, so it holds shapes only; words and numbers stand beside it as HTML, where
//! they keep their size on a phone. Every chart says in words what it shows, for those who do not see it.

use maud::{Markup, html};

use crate::format;

/// Size of the drawing in its own units.
const WIDTH: f64 = 600.0;
const HEIGHT: f64 = 120.0;

/// How the numbers of a chart are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unit {
    Number,
    PerSecond,
    Bytes,
    Seconds,
    Share,
}

impl Unit {
    pub(crate) fn write(self, value: f64) -> String {
        match self {
            Unit::Number => format::number(value),
            Unit::PerSecond => format::rate(value),
            Unit::Bytes => format::bytes(value.max(0.0) as u64),
            Unit::Seconds => format::duration_seconds(value),
            Unit::Share => format::percent(value),
        }
    }
}

/// One line of a chart.
pub(crate) struct Series<'a> {
    pub(crate) name: &'a str,
    /// Oldest first; nothing where nothing was measured.
    pub(crate) points: &'a [Option<f64>],
}

/// Lines over time, the last point being now.
pub(crate) struct Chart<'a> {
    pub(crate) title: &'a str,
    pub(crate) unit: Unit,
    pub(crate) step_seconds: f64,
    pub(crate) series: Vec<Series<'a>>,
}

impl Chart<'_> {
    /// Lines with the area below the first one filled.
    pub(crate) fn render(&self) -> Markup {
        let values = || {
            self.series
                .iter()
                .flat_map(|series| series.points)
                .flatten()
                .copied()
        };
        if values().next().is_none() {
            return html! {
                figure.chart {
                    figcaption { (self.title) }
                    div.plot.blank { p { "No figures yet" } }
                }
            };
        }
        let top = ceiling(values().fold(0.0, f64::max), self.unit);
        let length = self
            .series
            .iter()
            .map(|series| series.points.len())
            .max()
            .unwrap_or(0);
        html! {
            figure.chart {
                figcaption {
                    span.title { (self.title) }
                    @if self.series.len() > 1 {
                        ul.legend {
                            @for (at, series) in self.series.iter().enumerate() {
                                li { span class={ "swatch s" (at) } aria-hidden="true" {} (series.name) " " b { (self.latest(series)) } }
                            }
                        }
                    } @else if let Some(series) = self.series.first() {
                        b.latest { (self.latest(series)) }
                    }
                }
                div.plot {
                    svg viewBox={ "0 0 " (WIDTH) " " (HEIGHT) } preserveAspectRatio="none" role="img" aria-label=(self.words()) {
                        @for share in [0.0, 0.5, 1.0] {
                            @let y = px(HEIGHT * share);
                            line.grid x1="0" x2=(WIDTH) y1=(y) y2=(y) {}
                        }
                        @for (at, series) in self.series.iter().enumerate() {
                            @for run in runs(series.points, length, top) {
                                @if at == 0 { path class={ "area s" (at) } d=(area(&run)) {} }
                                path class={ "line s" (at) } d=(line(&run)) {}
                            }
                        }
                    }
                    span.y.high aria-hidden="true" { (self.unit.write(top)) }
                    span.y.middle aria-hidden="true" { (self.unit.write(top / 2.0)) }
                    span.x.from aria-hidden="true" { (format::duration_seconds(self.step_seconds * length as f64)) " ago" }
                    span.x.to aria-hidden="true" { "now" }
                }
            }
        }
    }

    fn latest(&self, series: &Series<'_>) -> String {
        let latest = series.points.iter().rev().take(3).flatten().next();
        latest.map_or_else(|| "–".to_owned(), |value| self.unit.write(*value))
    }

    /// What the drawing shows, in a sentence for each line.
    fn words(&self) -> String {
        let mut text = format!("{}.", self.title);
        for series in &self.series {
            let values = || series.points.iter().flatten().copied();
            if values().next().is_none() {
                continue;
            }
            let (low, high) = (
                values().fold(f64::INFINITY, f64::min),
                values().fold(0.0, f64::max),
            );
            let write = |value| self.unit.write(value);
            let minutes = format::duration_seconds(self.step_seconds * series.points.len() as f64);
            text.push_str(&format!(
                " {}: {} now, between {} and {} in the last {minutes}.",
                series.name,
                self.latest(series),
                write(low),
                write(high)
            ));
        }
        text
    }
}

/// One bar of a bar chart.
pub(crate) struct Bar<'a> {
    pub(crate) name: &'a str,
    pub(crate) value: f64,
}

/// Bars beside their names and numbers: how things compare now.
pub(crate) fn bars(title: &str, unit: Unit, bars: &[Bar<'_>]) -> Markup {
    let top = bars.iter().map(|bar| bar.value).fold(0.0, f64::max);
    html! {
        figure.chart.bars {
            figcaption { span.title { (title) } }
            @if bars.is_empty() { p.nothing { "Nothing to compare yet" } }
            ul {
                @for bar in bars {
                    @let width = if top > 0.0 { px(bar.value / top * 100.0) } else { px(0.0) };
                    li {
                        span.name { (bar.name) }
                        svg viewBox="0 0 100 8" preserveAspectRatio="none" aria-hidden="true" {
                            rect.track x="0" y="0" width="100" height="8" {}
                            rect.bar x="0" y="0" width=(width) height="8" {}
                        }
                        b { (unit.write(bar.value)) }
                    }
                }
            }
        }
    }
}

/// The end of the axis: a round number above everything.
fn ceiling(value: f64, unit: Unit) -> f64 {
    if unit == Unit::Share {
        return 1.0;
    }
    if value <= 0.0 {
        return 1.0;
    }
    let base: f64 = if unit == Unit::Bytes { 1024.0 } else { 1.0 };
    // Sizes are round in their own unit.
    let scale = if unit == Unit::Bytes {
        base.powf((value.ln() / base.ln()).floor().max(0.0))
    } else {
        1.0
    };
    let scaled = value / scale;
    let power = 10f64.powf(scaled.log10().floor());
    let steps = [1.0, 1.5, 2.0, 3.0, 4.0, 5.0, 6.0, 8.0, 10.0];
    let step = steps
        .into_iter()
        .find(|step| step * power >= scaled * 0.999)
        .unwrap_or(10.0);
    step * power * scale
}

/// The points as places in the drawing, cut where nothing was measured.
fn runs(points: &[Option<f64>], length: usize, top: f64) -> Vec<Vec<(f64, f64)>> {
    let step = WIDTH / (length.max(2) - 1) as f64;
    // Series that began later end now like the others.
    let first = length - points.len();
    let mut runs: Vec<Vec<(f64, f64)>> = vec![Vec::new()];
    for (at, point) in points.iter().enumerate() {
        match (point, runs.last_mut()) {
            (Some(value), Some(run)) => {
                let share = (value / top).clamp(0.0, 1.0);
                run.push(((first + at) as f64 * step, HEIGHT * (1.0 - share)));
            }
            _ => runs.push(Vec::new()),
        }
    }
    runs.retain(|run| !run.is_empty());
    for run in &mut runs {
        // A single point is drawn as a short line.
        if let [(x, y)] = run[..] {
            run[0].0 = (x - step / 2.0).max(0.0);
            run.push(((x + step / 2.0).min(WIDTH), y));
        }
    }
    runs
}

fn line(run: &[(f64, f64)]) -> String {
    let places = run.iter().map(|(x, y)| format!("{} {}", px(*x), px(*y)));
    format!("M{}", places.collect::<Vec<_>>().join("L"))
}

fn area(run: &[(f64, f64)]) -> String {
    let (Some((from, _)), Some((to, _))) = (run.first(), run.last()) else {
        return String::new();
    };
    format!("{}L{} {HEIGHT}L{} {HEIGHT}Z", line(run), px(*to), px(*from))
}

/// A length, with no more digits than the eye can tell.
fn px(length: f64) -> String {
    let text = format!("{length:.1}");
    text.strip_suffix(".0").map_or(text.clone(), str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chart(points: &[Option<f64>]) -> String {
        let chart = Chart {
            title: "Requests",
            unit: Unit::PerSecond,
            step_seconds: 10.0,
            series: vec![Series {
                name: "requests",
                points,
            }],
        };
        chart.render().into_string()
    }

    #[test]
    fn a_chart_says_in_words_what_it_shows() {
        let text = chart(&[Some(0.0), Some(8.0), Some(3.0)]);
        assert!(
            text.contains("Requests. requests: 3/s now, between 0/s and 8/s in the last 30 s."),
            "{text}"
        );
        assert!(
            !text.contains("style="),
            "the policy allows no styles in attributes"
        );
    }

    #[test]
    fn a_gap_is_left_where_nothing_was_measured() {
        let text = chart(&[Some(1.0), Some(2.0), None, Some(1.0), Some(1.0)]);
        assert_eq!(text.matches("class=\"line s0\"").count(), 2, "{text}");
    }

    #[test]
    fn a_chart_without_figures_says_so() {
        assert!(chart(&[None, None]).contains("No figures yet"));
        assert!(chart(&[]).contains("No figures yet"));
    }

    #[test]
    fn axes_end_at_round_numbers() {
        let cases = [(0.0, 1.0), (0.7, 0.8), (8.0, 8.0), (11.0, 15.0), (1234.0, 1500.0)];
        for (value, top) in cases {
            assert!((ceiling(value, Unit::Number) - top).abs() < 1e-9, "{value}");
        }
        assert_eq!(ceiling(3.0 * 1048576.0, Unit::Bytes), 3.0 * 1048576.0);
        assert_eq!(ceiling(0.3, Unit::Share), 1.0);
    }

    #[test]
    fn lines_stay_inside_the_drawing() {
        let points = [Some(5.0), Some(100.0), None, Some(f64::NAN.max(2.0))];
        for (x, y) in runs(&points, 4, 10.0).concat() {
            assert!((0.0..=WIDTH).contains(&x) && (0.0..=HEIGHT).contains(&y));
        }
    }
}
