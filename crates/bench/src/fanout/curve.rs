//! The goodput curve as a picture: what was offered to the right, what was stored in time upwards.

use std::fmt::Write;

use super::competitor::Kind;

const WIDTH: f64 = 720.0;
const HEIGHT: f64 = 420.0;
/// Space for the axes and their texts.
const LEFT: f64 = 70.0;
const RIGHT: f64 = 20.0;
const TOP: f64 = 40.0;
const BOTTOM: f64 = 50.0;

/// One point: how many times its capacity a program was offered, and its goodput, as requests a second.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Point {
    pub(super) kind: Kind,
    pub(super) factor: f64,
    pub(super) goodput: f64,
}

/// Draws the points of each program as a line.
pub(super) fn svg(points: &[Point]) -> String {
    let most = points.iter().map(|point| point.goodput).fold(1.0, f64::max);
    let top = nice(most);
    let factors = factors(points);
    let mut text = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" font-family=\"sans-serif\" \
         font-size=\"13\">\n<rect width=\"100%\" height=\"100%\" fill=\"#fff\"/>\n\
         <text x=\"{LEFT}\" y=\"22\" font-size=\"15\">Goodput: requests a second with every answer stored in time</text>\n"
    );
    for step in 0..=4 {
        let value = top * f64::from(step) / 4.0;
        let y = y(value, top);
        let (end, label) = (WIDTH - RIGHT, LEFT - 8.0);
        // Writing to a text cannot fail.
        let _ = write!(
            text,
            "<line x1=\"{LEFT}\" y1=\"{y:.1}\" x2=\"{end}\" y2=\"{y:.1}\" stroke=\"#ddd\"/>\n\
             <text x=\"{label}\" y=\"{:.1}\" text-anchor=\"end\">{value:.0}</text>\n",
            y + 4.0
        );
    }
    for factor in &factors {
        let (x, y) = (x(*factor, &factors), HEIGHT - BOTTOM + 20.0);
        let _ = writeln!(
            text,
            "<text x=\"{x:.1}\" y=\"{y}\" text-anchor=\"middle\">{factor}</text>"
        );
    }
    let (middle, below) = (f64::midpoint(LEFT, WIDTH - RIGHT), HEIGHT - 10.0);
    let _ = writeln!(
        text,
        "<text x=\"{middle}\" y=\"{below}\" text-anchor=\"middle\">offered, times the capacity</text>"
    );
    for (number, (kind, color)) in [(Kind::Ours, "#0b6e4f"), (Kind::Serinin, "#c1440e")]
        .iter()
        .enumerate()
    {
        let own = points.iter().filter(|point| point.kind == *kind);
        let places: Vec<(f64, f64)> = own
            .map(|point| (x(point.factor, &factors), y(point.goodput, top)))
            .collect();
        if places.is_empty() {
            continue;
        }
        let line: Vec<String> = places.iter().map(|(x, y)| format!("{x:.1},{y:.1}")).collect();
        let _ = writeln!(
            text,
            "<polyline points=\"{}\" fill=\"none\" stroke=\"{color}\" stroke-width=\"2\"/>",
            line.join(" ")
        );
        for (x, y) in places {
            let _ = writeln!(
                text,
                "<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"4\" fill=\"{color}\"/>"
            );
        }
        let (x, y) = (WIDTH - RIGHT - 90.0, TOP + 18.0 * (number as f64 + 1.0));
        let _ = writeln!(
            text,
            "<text x=\"{x}\" y=\"{y}\" fill=\"{color}\">{}</text>",
            kind.name()
        );
    }
    text.push_str("</svg>\n");
    text
}

/// Returns the factors in rising order, each once.
fn factors(points: &[Point]) -> Vec<f64> {
    let mut factors: Vec<f64> = points.iter().map(|point| point.factor).collect();
    factors.sort_by(f64::total_cmp);
    factors.dedup();
    factors
}

/// Returns a round number at or above this one.
fn nice(most: f64) -> f64 {
    let unit = 10f64.powf(most.log10().floor());
    let steps = [1.0, 2.0, 4.0, 5.0, 10.0];
    steps
        .iter()
        .map(|step| step * unit)
        .find(|top| *top >= most)
        .unwrap_or(most)
}

fn y(goodput: f64, top: f64) -> f64 {
    HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * goodput / top
}

/// Factors stand at equal distances, in their order: from a half to five they are far apart.
fn x(factor: f64, factors: &[f64]) -> f64 {
    let at = factors
        .iter()
        .position(|known| *known == factor)
        .unwrap_or_default();
    let gaps = factors.len().saturating_sub(1).max(1);
    LEFT + 30.0 + (WIDTH - LEFT - RIGHT - 60.0) * at as f64 / gaps as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_program_has_its_line_and_each_point_its_place() {
        let point = |kind, factor, goodput| Point {
            kind,
            factor,
            goodput,
        };
        let picture = svg(&[
            point(Kind::Ours, 0.5, 500.0),
            point(Kind::Ours, 2.0, 950.0),
            point(Kind::Serinin, 0.5, 200.0),
            point(Kind::Serinin, 2.0, 10.0),
        ]);
        assert_eq!(picture.matches("<polyline").count(), 2);
        assert_eq!(picture.matches("<circle").count(), 4);
        assert!(
            picture.contains(">1000</text>") && picture.contains(">nagaya</text>"),
            "{picture}"
        );
        assert!(picture.starts_with("<svg") && picture.ends_with("</svg>\n"));
        assert_eq!(
            (nice(950.0), nice(1001.0), nice(4100.0)),
            (1000.0, 2000.0, 5000.0)
        );
        assert!(y(950.0, 1000.0) < y(10.0, 1000.0), "more is higher");
    }

    #[test]
    fn without_the_other_program_there_is_one_line() {
        let alone = Point {
            kind: Kind::Ours,
            factor: 1.0,
            goodput: 1.0,
        };
        assert_eq!(svg(&[alone]).matches("<polyline").count(), 1);
    }
}
