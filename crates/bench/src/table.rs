//! Tables of figures, for the terminal and as Markdown.

/// Rows of cells under a head; the first column holds names, the others figures.
pub(super) struct Table {
    rows: Vec<Vec<String>>,
}

impl Table {
    pub(super) fn new(head: &[&str]) -> Table {
        let head = head.iter().map(|&cell| cell.to_owned()).collect();
        Table { rows: vec![head] }
    }

    /// Adds a row; it must have as many cells as the head.
    pub(super) fn row(&mut self, cells: Vec<String>) {
        self.rows.push(cells);
    }

    /// The table in aligned columns.
    pub(super) fn text(&self) -> String {
        let widths = self.widths();
        let line = |row: &Vec<String>| aligned(row, &widths, "  ").trim_end().to_owned() + "\n";
        self.rows.iter().map(line).collect()
    }

    /// The table as Markdown, aligned as well.
    pub(super) fn markdown(&self) -> String {
        let widths = self.widths();
        let line = |row: &Vec<String>| format!("| {} |\n", aligned(row, &widths, " | "));
        let mut text = line(&self.rows[0]);
        let rules = widths.iter().enumerate().map(|(column, &width)| match column {
            0 => format!("| {} ", "-".repeat(width.max(3))),
            _ => format!("| {}: ", "-".repeat(width.max(3) - 1)),
        });
        text.extend(rules);
        text.push_str("|\n");
        text.extend(self.rows[1..].iter().map(line));
        text
    }

    fn widths(&self) -> Vec<usize> {
        let width = |column: usize| {
            self.rows
                .iter()
                .map(|row| row[column].chars().count())
                .max()
                .unwrap_or(0)
        };
        (0..self.rows[0].len()).map(width).collect()
    }
}

/// A ratio as shown in a cell. A run too short for the CPU clock has none.
pub(super) fn ratio(ratio: f64) -> String {
    if ratio.is_finite() {
        format!("{ratio:.2}x")
    } else {
        "-".to_owned()
    }
}

fn aligned(row: &[String], widths: &[usize], between: &str) -> String {
    let cells: Vec<String> = row
        .iter()
        .zip(widths)
        .enumerate()
        .map(|(column, (cell, &width))| match column {
            0 => format!("{cell:width$}"),
            _ => format!("{cell:>width$}"),
        })
        .collect();
    cells.join(between)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_aligned_in_both_forms() {
        let mut table = Table::new(&["", "rps"]);
        table.row(vec!["GET".to_owned(), "1000".to_owned()]);
        assert_eq!(table.text(), "      rps\nGET  1000\n");
        assert_eq!(
            table.markdown(),
            "|     |  rps |\n| --- | ---: |\n| GET | 1000 |\n"
        );
    }
}
