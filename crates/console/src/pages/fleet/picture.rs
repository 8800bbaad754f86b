//! The fleet as a picture: a card for each instance, in it a cell for each worker.
//!
//! Few workers get wide cells with their names, many get small squares. States differ in shape as well as in
//! colour: filled cells run, hollow ones are being stopped, dashed ones wait for a place. The table of workers
//! says the same in words, so each drawing is one image with one sentence for those who do not see it.

use std::collections::BTreeMap;

use maud::{Markup, html};

use super::operate;
use super::wire::{Fleet, Instance, InstanceState, Look, Worker};
use crate::format;
use crate::html::{Tone, badge, time};
use crate::request::PageRequest;

/// Width of a drawing in its own units; the page scales it.
const WIDTH: usize = 300;
/// Maximum number of workers in a card with names shown.
const NAMED_MAX: usize = 18;
/// Cells of one card at most; the rest is shown as a count.
const CELLS_MAX: usize = 400;
/// Letters of a name that fit into a cell.
const LETTERS_MAX: usize = 13;

/// How cells are laid out. All cards use the same, so that they can be compared.
#[derive(Clone, Copy)]
struct Grid {
    columns: usize,
    cell_height: usize,
    gap: usize,
    has_names: bool,
}

impl Grid {
    /// The layout for the fullest card.
    fn for_count(count: usize) -> Grid {
        let (columns, cell_height, gap, has_names) = match count {
            0..=NAMED_MAX => (3, 24, 6, true),
            19..=100 => (12, 20, 5, false),
            _ => (25, 9, 3, false),
        };
        Grid {
            columns,
            cell_height,
            gap,
            has_names,
        }
    }

    fn cell_width(self) -> usize {
        (WIDTH - (self.columns - 1) * self.gap) / self.columns
    }

    fn height(self, count: usize) -> usize {
        count.div_ceil(self.columns) * (self.cell_height + self.gap) - self.gap
    }

    fn corner(self, at: usize) -> (usize, usize) {
        let (column, row) = (at % self.columns, at / self.columns);
        (
            column * (self.cell_width() + self.gap),
            row * (self.cell_height + self.gap),
        )
    }
}

/// Draws all instances, and what waits for a place.
pub(super) fn draw(request: &PageRequest, fleet: &Fleet) -> Markup {
    let mut placed: BTreeMap<&str, Vec<&Worker>> = BTreeMap::new();
    let mut waiting = Vec::new();
    for worker in &fleet.workers {
        match &worker.instance {
            Some(instance) => placed.entry(instance).or_default().push(worker),
            None => waiting.push(worker),
        }
    }
    let fullest = placed
        .values()
        .map(Vec::len)
        .max()
        .unwrap_or(0)
        .max(waiting.len());
    let grid = Grid::for_count(fullest);
    html! {
        ul.instances {
            @for instance in &fleet.instances {
                @let workers = placed.get(instance.name.as_str()).map_or(&[][..], Vec::as_slice);
                li.card { (card(request, instance, workers, grid)) }
            }
            @if !waiting.is_empty() {
                li.card {
                    div.head { h3 { "Nowhere" } (badge(Tone::Warning, "waiting")) }
                    p.quiet { (format::counted(waiting.len() as u64, "worker")) " without a place" }
                    (cells(&waiting, grid))
                }
            }
        }
        @if !fleet.workers.is_empty() { (legend()) }
    }
}

fn card(request: &PageRequest, instance: &Instance, workers: &[&Worker], grid: Grid) -> Markup {
    html! {
        div.head {
            h3 { (instance.name) }
            (state_badge(instance.state))
            (operate::instance_button(request, instance))
        }
        p.quiet {
            (format::counted(workers.len() as u64, "worker"))
            @if let Some(capacity) = instance.capacity { " of " (format::count(capacity)) }
            @if instance.weight != 1 { " · weight " (instance.weight) }
            @if let Some(zone) = &instance.zone { " · zone " (zone) }
            @for label in &instance.labels { " · " (label) }
            " · since " (time(instance.since_ms))
        }
        @if workers.is_empty() {
            p.nothing { "No workers." }
        } @else {
            (cells(workers, grid))
        }
    }
}

fn state_badge(state: InstanceState) -> Markup {
    match state {
        InstanceState::Live => badge(Tone::Good, "live"),
        InstanceState::Draining => badge(Tone::Warning, "draining"),
        InstanceState::Leaving => badge(Tone::Warning, "leaving"),
        InstanceState::Dead => badge(Tone::Bad, "dead"),
    }
}

fn cells(workers: &[&Worker], grid: Grid) -> Markup {
    let shown = &workers[..workers.len().min(CELLS_MAX)];
    html! {
        svg.cells viewBox={ "0 0 " (WIDTH) " " (grid.height(shown.len())) } role="img" aria-label=(words(workers)) {
            @for (at, worker) in shown.iter().enumerate() { (cell(worker, at, grid)) }
        }
        @if workers.len() > shown.len() {
            p.quiet { "and " (format::count((workers.len() - shown.len()) as u64)) " more" }
        }
    }
}

fn cell(worker: &Worker, at: usize, grid: Grid) -> Markup {
    let (x, y) = grid.corner(at);
    let (width, height) = (grid.cell_width(), grid.cell_height);
    html! {
        g class={ "cell " (worker.look().class()) } {
            title { (worker.id) ": " (worker.look().word()) }
            // Strokes are drawn half outside of their line.
            rect x=(x as f64 + 0.5) y=(y as f64 + 0.5) width=(width - 1) height=(height - 1) rx=(height.min(8) / 2) {}
            @if grid.has_names {
                text x=(x + width / 2) y=(y + height / 2 + 4) text-anchor="middle" { (short(&worker.id)) }
            }
        }
    }
}

/// A name that fits into a cell.
fn short(name: &str) -> String {
    match name.char_indices().nth(LETTERS_MAX) {
        None => name.to_owned(),
        Some(_) => {
            let kept: String = name.chars().take(LETTERS_MAX - 1).collect();
            format!("{kept}…")
        }
    }
}

/// What the cells of a card show, in a sentence.
fn words(workers: &[&Worker]) -> String {
    let mut counts: BTreeMap<&str, u64> = BTreeMap::new();
    for worker in workers {
        *counts.entry(worker.look().word()).or_default() += 1;
    }
    let parts = counts.iter().map(|(word, count)| format!("{count} {word}"));
    format!("Workers: {}", parts.collect::<Vec<_>>().join(", "))
}

fn legend() -> Markup {
    html! {
        ul.keys {
            @for look in Look::ALL {
                li {
                    svg viewBox="0 0 14 14" aria-hidden="true" {
                        g class={ "cell " (look.class()) } { rect x="1" y="1" width="12" height="12" rx="3" {} }
                    }
                    (look.word())
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_stay_inside_the_drawing() {
        for count in [1, 18, 19, 100, 101, CELLS_MAX] {
            let grid = Grid::for_count(count);
            let (x, y) = grid.corner(count - 1);
            assert!(grid.corner(grid.columns - 1).0 + grid.cell_width() <= WIDTH);
            assert!(
                x + grid.cell_width() <= WIDTH && y + grid.cell_height <= grid.height(count),
                "{count}"
            );
        }
    }

    #[test]
    fn long_names_are_cut_between_letters() {
        assert_eq!(short("camera-12"), "camera-12");
        assert_eq!(
            short("カメラカメラカメラカメラカメラ"),
            "カメラカメラカメラカメラ…"
        );
    }
}
